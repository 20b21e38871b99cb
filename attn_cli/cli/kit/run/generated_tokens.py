"""The status line that counts generated tokens while a source generates them."""

from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.model.source import Source
from attn_cli.sources import Generating


@contextmanager
def counted_tokens(source: Source, most: int | None, *, quiet: bool) -> Iterator[None]:
    """Context manager: says on stderr how many tokens, of `most` at most, a model has generated so far."""
    if most is None or not isinstance(source, Generating):
        yield
        return
    with StatusLine(f"writing up to {most} tokens", quiet=quiet) as line:
        source.on_token(lambda count: line.say(f"writing token {count} of up to {most}"))
        yield
