"""Reading the texts: from the argument, a file, or standard input, as one text or line by line."""

import io
import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from attn_cli.cli.kit.stderr import print_line
from attn_cli.errors import InputError, LimitError, reason
from attn_cli.sources.files.paths import expanded, nearest_name, read_content, read_stream
from attn_cli.text import decimal_bytes, excerpt
from attn_cli.views.invocation import quoted

_CHUNK = 2**16


class LineStream:
    """Reads a file descriptor by lines, like a binary file, and can say whether a line would have to be waited for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.ahead, self.searched, self.ended = descriptor, bytearray(), 0, False

    def readline(self, limit: int) -> bytes:
        """The next line with its end, b"" at the end; one of more than `limit` bytes may come in pieces."""
        while not self._holds_line() and len(self.ahead) < limit:
            self._read()
        end = self.ahead.find(b"\n", self.searched) + 1
        line = bytes(self.ahead[: end or None])
        del self.ahead[: len(line)]
        self.searched = 0
        return line

    def has_line(self) -> bool:
        """True if a line, or the end of the stream, is there, so that `readline` doesn't wait."""
        while not self._holds_line():
            try:
                readable, _, _ = select.select([self.descriptor], [], [], 0)
            except (OSError, ValueError):  # Windows asks sockets alone
                return True
            if not readable:
                return False
            self._read()
        return True

    def _holds_line(self) -> bool:
        end = self.ahead.find(b"\n", self.searched)
        self.searched = len(self.ahead) if end < 0 else end
        return end >= 0 or self.ended

    def _read(self) -> None:
        chunk = os.read(self.descriptor, _CHUNK)
        self.ended = not chunk
        self.ahead += chunk


_READ_BY = {  # by suffix; others hold texts
    **dict.fromkeys((".attn", ".gguf", ".vec"), "-m"),
    **dict.fromkeys((".npz", ".npy", ".tsv", ".safetensors"), "attn compute --q"),
    ".csv": "-m, if it holds words and numbers, else attn compute --q",
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".gif"), "--image"),
    **dict.fromkeys((".wav", ".flac", ".mp3", ".ogg"), "--audio"),
}
_LONGEST = 255  # characters of a file's name
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def refuse_path(text: str, option: str | None) -> None:
    """InputError for a text that is the path of a file or folder, with the option that reads it."""
    path = Path(text)
    if not text.strip() or len(text) > _LONGEST or "\n" in text:
        return
    try:
        is_file, is_folder = path.expanduser().is_file(), path.expanduser().is_dir()
        holds = {name for name in ("scan.json", "config.json") if (path.expanduser() / name).is_file()}
    except (OSError, ValueError, RuntimeError):
        return
    if is_file and ("." in text or "/" in text):
        own = f"{option} {quoted(text)}" if option else f'"$(cat {quoted(text)})"'
        reads = _READ_BY.get(path.suffix.lower())
        hint = f"what reads it: {f'{reads} {quoted(text)}' if reads else own}"
        raise InputError(f"{excerpt(text)} is a file, not a text", hint)
    if is_folder and (holds or "/" in text):
        scan = f"attn scan show {quoted(text)}" if "scan.json" in holds else f"-m {quoted(text)}"
        raise InputError(f"{excerpt(text)} is a folder, not a text", f"what reads it: {scan}")


_CONVERT = "convert it: iconv -t utf-8"
_LONGEST_LINE = 10**8


class Texts(Iterator[str | InputError]):
    """The texts to answer, in order: one, or with `lines` each line, an InputError for one that isn't UTF-8."""

    def __init__(self, text: str | None, file: str | None, *, lines: bool, option: str | None = "--file") -> None:
        if text is not None and file is not None:
            raise InputError("a text and --file at once", "give one of them")
        given = None if text == "-" else text
        if given is not None:
            refuse_path(given, f"--lines {option}" if lines and option else option)
        self._stream: LineStream | None = None
        self._texts = self._read(given, file, explicit="-" in (text, file), lines=lines)

    def __next__(self) -> str | InputError:
        return next(self._texts)

    def waiting(self) -> bool:
        """True if the next text, or the end, is there already."""
        return self._stream is None or self._stream.has_line()

    def _read(self, text: str | None, file: str | None, *, explicit: bool, lines: bool) -> Iterator[str | InputError]:
        label = "standard input" if file in (None, "-") else file or ""
        if text is not None:
            try:
                source: BinaryIO = io.BytesIO(text.encode())
            except UnicodeEncodeError as error:
                raise InputError(f"the text is not UTF-8 at character {error.start}", _CONVERT) from None
        elif file in (None, "-"):
            source = _stdin(explicit=explicit)
            with suppress(OSError, ValueError):  # no file descriptor: a stream in memory
                self._stream = LineStream(source.fileno()) if lines else None
        else:
            source = io.BytesIO(_content(label))
        if lines:
            yield from _by_line(self._stream or source)
        else:
            yield _decode(read_stream(source, label), label) if text is None else text


def whole_texts(texts: Sequence[str]) -> list[str]:
    """The texts given as arguments; one of them may be -, which stands for standard input."""
    if sum(text == "-" for text in texts) > 1:
        raise InputError("standard input holds one text, - was given more than once", "give the others in quotes")
    return [str(next(Texts(text, None, lines=False, option=None))) for text in texts]  # lines alone have errors


def _content(file: str) -> bytes:
    try:
        content = read_content(expanded(file))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        is_missing = isinstance(error, FileNotFoundError)
        hint = nearest_name(Path(file)) if is_missing else "check the name and the folder"
        raise InputError(f"can't read {file}: {reason(error)}", hint) from None
    if b"\0" in content[:64] and not content.startswith(_UTF16):
        reads = _READ_BY.get(Path(file).suffix.lower(), "attn compute --q")
        raise InputError(f"{excerpt(file)} holds no text", f"what reads it: {reads} {quoted(file)}")
    return content


def _stdin(*, explicit: bool) -> BinaryIO:
    """Standard input; a terminal is read only if the user gave - (`explicit`)."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", "give the text as an argument or with --file")
    if sys.stdin.isatty():
        if not explicit:
            hint = 'it goes in quotes or with --file FILE, and - reads what you type    such as "river bank"'
            raise InputError("no text", hint)
        print_line("reading the terminal: end with Ctrl-D")
    return sys.stdin.buffer


def _by_line(stream: "BinaryIO | LineStream") -> Iterator[str | InputError]:
    """The lines of a stream, InputErrors for those that are no text; LimitError for one without an end."""
    for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE + 1), b""), 1):
        if len(line) > _LONGEST_LINE:
            endless = f"line {number} has more than {decimal_bytes(_LONGEST_LINE)} without an end"
            raise LimitError(endless, "without --lines all of it is one text")
        try:
            yield _decode(line, "the line", first=number == 1)
        except InputError as error:
            yield error


def _decode(content: bytes, label: str, *, first: bool = True) -> str:
    try:
        text = content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is not UTF-8 at byte {error.start}", _CONVERT) from None
    return text.removesuffix("\n").removesuffix("\r")
