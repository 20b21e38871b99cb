"""A word on stderr before slow work, only where a person sees it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.views.tokens import visible


@contextmanager
def said(message: str, *, quiet: bool) -> Iterator[None]:
    """Show `message` on a terminal's stderr while the block runs, then take it away again."""
    shown = not quiet and sys.stderr.isatty()
    if shown:
        print(f"\r{visible(message)}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
