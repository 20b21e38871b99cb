"""Where texts come from: the argument, a file, standard input as one text, or line by line."""

import sys
from collections.abc import Iterator
from pathlib import Path

from attn_cli.errors import InputError


def texts_of(text: str | None, file: str | None, *, lines: bool) -> Iterator[str]:
    """The texts to answer, in order: one, or with `lines` one per line.

    Raises InputError for no text at all, for text and file at once, and for bytes that are not UTF-8.
    """
    if text is not None and file is not None:
        raise InputError("a text and --file at once", "give one of them")
    if file is None and text not in (None, "-"):
        yield from _split(text or "") if lines else (text or "",)
        return
    if file is not None and file != "-":
        try:
            content = Path(file).expanduser().read_bytes()
        except OSError as error:
            raise InputError(f"can't read {file}: {error.strerror}") from error
        where = file
    else:
        where = "standard input"
        if lines:
            yield from (_decoded(line, f"line {number} of {where}") for number, line in enumerate(_stdin(text), 1))
            return
        content = b"".join(_stdin(text))
    whole = _decoded(content, where)
    yield from _split(whole) if lines else (whole,)


def _stdin(text: str | None) -> Iterator[bytes]:
    """The lines of standard input, as they come."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", "give the text as an argument or with --file")
    if sys.stdin.isatty():
        if text is None:
            raise InputError("no text", 'try: attn inspect "river bank"')
        print("reading the terminal; end with Ctrl-D", file=sys.stderr)
    yield from sys.stdin.buffer


def _decoded(content: bytes, where: str) -> str:
    """UTF-8 without byte order mark and without the end of the last line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 at byte {error.start}", "convert it: iconv -t utf-8") from error
    return text.removesuffix("\n").removesuffix("\r")


def _split(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]
