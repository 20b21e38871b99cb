"""Dividing a text for `attn parts`: by its own marks, by the messages of a chat, or by a file of spans."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attn_cli.errors import InputError, reason
from attn_cli.prompt import Prompt
from attn_cli.summaries.parts.text_parts import CUTS, PartSpan, TextPart, message_spans, named_parts, parts_of

_EXAMPLE = "a line of it: 0,31,introduction"


@dataclass(frozen=True)
class TextCut:
    """The division of texts into parts.

    how    lines, paragraphs, sentences, words, roles or the name of a file; None to choose by the text
    spans  the named ranges of characters that the file holds; none without a file
    """

    how: str | None
    spans: tuple[PartSpan, ...] = ()

    def parts(self, prompt: Prompt, messages: Sequence[tuple[str, str]] | None) -> tuple[str, tuple[TextPart, ...]]:
        """The name of the division, such as "lines", and the prompt's parts."""
        if self.spans:
            _check_ends(self.spans, prompt)
            return self.how or "", named_parts(prompt, self.spans, "rest")
        within = None if messages is None else message_spans(prompt.text, messages)
        if self.how == "roles" or (self.how is None and len(within or ()) > 1):
            if within is None:
                raise InputError(
                    "--cut roles needs a chat", "add --chat, or choose lines, paragraphs, sentences or words"
                )
            return "roles", named_parts(prompt, within, "template")
        for how in ("lines", "sentences", "words") if self.how is None else (self.how,):
            parts = parts_of(prompt, how, within)
            if sum(part.kind == "given" for part in parts) > 1:
                break
        return how, parts


def text_cut(value: str | None) -> TextCut:
    """How a value of --cut divides texts: into lines, sentences ..., or by a file of spans; None: as each text asks."""
    if value is None or value in (*CUTS, "roles"):
        return TextCut(value)
    path = Path(value).expanduser()
    if not path.exists():
        raise InputError(f"--cut {value!r} is not a known way to cut, nor a file",
                         f"{', '.join(CUTS)}, roles, or a file of start,end,name")  # fmt: skip
    return TextCut(value, tuple(_read(path, value)))


def _read(path: Path, file: str) -> list[PartSpan]:
    """The spans of a file: a line each, after a heading if there is one."""
    try:
        rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"can't read {file}: {reason(error)}", _EXAMPLE) from None
    lines = [(number, row) for number, row in enumerate(rows, 1) if any(cell.strip() for cell in row)]
    if lines and not lines[0][1][0].strip().lstrip("-").isdigit():
        del lines[0]
    if not lines:
        raise InputError(f"{file} holds no parts", _EXAMPLE)
    return [_span(row, f"{file}: line {number}", number) for number, row in lines]


def _span(row: list[str], where: str, number: int) -> PartSpan:
    try:
        start, end = int(row[0]), int(row[1])
    except (ValueError, IndexError):
        raise InputError(f"{where} is not start,end,name", _EXAMPLE) from None
    if not 0 <= start <= end:
        raise InputError(f"{where} goes from character {start} to {end}", "start is 0 or more, end one past the last")
    return PartSpan(start, end, ",".join(row[2:]).strip() or f"part {number}")


def _check_ends(spans: Sequence[PartSpan], prompt: Prompt) -> None:
    """InputError for a span beyond the end of what the model was given."""
    generated = prompt.generated
    length = len(prompt.text) if generated is None or generated.start is None else generated.start
    for span in spans:
        if span.end > length:
            raise InputError(f"the part {span.name!r} ends at character {span.end:,}, the text at {length:,}",
                             "characters are counted from 0, over the whole text")  # fmt: skip
