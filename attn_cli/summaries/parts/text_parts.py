"""Parts of a text: its lines, paragraphs, sentences, words or messages, or spans of one's own, as sets of tokens."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import adjacent
from attn_cli.sentences import piece_starts

CUTS = ("lines", "paragraphs", "sentences", "words")

_NEAR = 3  # parts at the end of a text among which its question stands


class PartSpan(NamedTuple):
    """Characters start:end of a text, and the name of the part that they belong to."""

    start: int
    end: int
    name: str


@dataclass(frozen=True)
class TextPart:
    """A part of a text as the model read it."""

    name: str  # "line 3", "word 5", the role of a message; "special" or "template" for other tokens
    spans: tuple[tuple[int, int], ...]  # its characters as start:end, ascending
    tokens: tuple[int, ...]
    kind: str = "given"  # "given", "generated", or "other" for what is between or around the parts

    def text(self, whole: str) -> str:
        """The part's characters of the `whole` text, one span after the other."""
        return "".join(whole[start:end] for start, end in self.spans)


def parts_of(prompt: Prompt, cut: str, within: Sequence[PartSpan] | None = None) -> tuple[TextPart, ...]:
    """The text cut into "lines", "paragraphs", "sentences" or "words"; what the model generated is the last ones.

    `within` are the only spans to be cut, as the messages of a chat; what is between them is "template". A token
    belongs to the part in which it begins. Tokens that stand for no text are the part "special".
    """
    generated = prompt.generated
    end = len(prompt.text) if generated is None or generated.start is None else generated.start
    places = [(0, end)] if within is None else [(span.start, span.end) for span in within]
    pieces = [piece for start, end in places for piece in _pieces(prompt, cut, start, end)]
    numbers: Sequence[int] = range(1, len(pieces) + 1)
    if within is None and cut == "lines":  # as an editor counts them, with blank lines, which are no parts
        begins = (end - len(prompt.text[start:end].lstrip()) for start, end in pieces)
        numbers = [1 + len(piece_starts(prompt.text, "lines", 0, begin)) for begin in begins]
    names = (f"{cut.removesuffix('s')} {number}" for number in numbers)
    return named_parts(prompt, [PartSpan(*piece, name) for piece, name in zip(pieces, names, strict=True)], cut)


def named_parts(prompt: Prompt, spans: Sequence[PartSpan], cut: str | None = None) -> tuple[TextPart, ...]:
    """The parts of spans of characters, whose names differ, in the order of the text, and of the tokens in none.

    cut  how what the model generated is cut; None for not at all
    """
    written = _written(prompt, cut)
    ordered = [*sorted(spans), *written]
    starts = [span.start for span in ordered]
    keys = [(span.name, "generated" if span in written else "given") for span in ordered]
    tokens: dict[tuple[str, str], list[int]] = {key: [] for key in keys}
    for token in prompt.tokens:
        at = -1 if token.start is None else bisect_right(starts, token.start) - 1
        inside = at >= 0 and (token.start or 0) < ordered[at].end
        key = keys[at] if inside else (_name_outside(token, prompt), "other")
        tokens.setdefault(key, []).append(token.index)
    places = {key: ((span.start, span.end),) for key, span in zip(keys, ordered, strict=True)}
    parts = [
        TextPart(name, places.get((name, kind)) or _places_of([prompt.tokens[at] for at in own]), tuple(own), kind)
        for (name, kind), own in tokens.items()
    ]
    return tuple(sorted(parts, key=lambda part: (part.kind == "generated", part.tokens[:1] or (0,), part.spans)))


class MessageText(NamedTuple):
    """The role of a chat's message, the texts of its content, and the names and arguments of its calls of tools."""

    role: str
    content: tuple[str, ...]
    calls: tuple[str, ...] = ()


def message_spans(text: str, messages: Sequence[MessageText]) -> list[PartSpan]:
    """The character ranges of messages in the text that a chat template made of them, calls of tools included."""
    spans: list[PartSpan] = []
    roles = [message.role for message in messages]
    at = 0
    for number, (role, content, calls) in enumerate(messages):
        places, whole = _search(text, content, at, len(text))
        begin = places[-1][1] if places else at
        more, _ = _search(text, calls, begin, len(text))
        following = [piece for later in messages[number + 1 : number + 2] for piece in later.content]
        if more and not _search(text, following, more[-1][1], len(text))[1]:  # calls that the template leaves out
            more, _ = _search(text, calls, begin, max(text.find(following[0].strip(), begin), begin))
        if not whole and not more:
            reason = f"message {number + 1} ({role}) is not in the chat's text as it was given"
            raise InputError(reason, "cut it otherwise, as by --cut lines: its template changes messages")
        if places := [*places, *more]:
            at = places[-1][1]
            turn = roles[: number + 1].count(role)
            spans.append(PartSpan(places[0][0], at, f"{role} {turn}" if roles.count(role) > 1 else role))
    return spans


def _search(text: str, pieces: Sequence[str], at: int, end: int) -> tuple[list[tuple[int, int]], bool]:
    """The places of pieces, in order, in text[at:end]; whether all that aren't blank were found."""
    places = []
    for piece in pieces:
        found = next((x for x in (piece, piece.strip()) if x and text.find(x, at, end) >= 0), None)
        if found is not None:
            start = text.index(found, at)
            at = start + len(found)
            places.append((start, at))
    return places, len(places) >= sum(bool(piece.strip()) for piece in pieces)


def template_tokens(prompt: Prompt, messages: Sequence[MessageText]) -> tuple[int, ...]:
    """The tokens that a chat's template put around its messages, ascending; () where it changed what they say."""
    try:
        spans = message_spans(prompt.text, messages)
    except InputError:
        return ()
    return tuple(token for part in named_parts(prompt, spans) if part.kind == "other" for token in part.tokens)


def rows_before_generated(prompt: Prompt) -> tuple[int, ...]:
    """The rows that predict generated tokens, each the one before its token; () where none was generated."""
    tokens = prompt.others.get("decoder", prompt.tokens)
    return tuple(token.index - 1 for token in tokens if token.generated and token.index > 0)


def rows_of_last(prompt: Prompt, parts: Sequence[TextPart]) -> tuple[int, ...]:
    """The rows, ascending, of the last part that was given, such as a question, and of all tokens given after it."""
    given = [part for part in parts if part.kind == "given" and part.tokens]
    first = given[-1].tokens[0] if given else 0
    return tuple(token.index for token in prompt.tokens if token.index >= first and not token.generated)


def question_of(prompt: Prompt, parts: Sequence[TextPart]) -> frozenset[int]:
    """The numbers of the parts that ask: the last one given, or all from the one that ends in a question mark on."""
    given = [number for number, part in enumerate(parts) if part.kind == "given" and part.tokens]
    near = given[-_NEAR:]
    asks = [
        number for number in near if parts[number].text(prompt.text).rstrip("\"'”’»)] \t\r\n").endswith(("?", "？"))
    ]
    first = asks[-1] if asks else given[-1] if given else 0
    return frozenset(number for number in given if number >= first)


def _pieces(prompt: Prompt, cut: str, start: int, end: int) -> list[tuple[int, int]]:
    """The pieces of characters start:end, each with the white space after it, the first with that before it."""
    borders = _word_starts(prompt, start, end) if cut == "words" else piece_starts(prompt.text, cut, start, end)
    pieces: list[tuple[int, int]] = []
    for first, last in pairwise([start, *borders, end]):
        blank = not prompt.text[first:last].strip()
        if pieces and (blank or not prompt.text[slice(*pieces[-1])].strip()):
            pieces[-1] = pieces[-1][0], last
        elif last > first:
            pieces.append((first, last))
    return pieces


def _word_starts(prompt: Prompt, start: int, end: int) -> list[int]:
    inside = [token for token in prompt.tokens if token.start is not None and start <= token.start < end]
    words = groupby((t for t in inside if t.text.strip()), lambda token: token.word or token.start)
    return [next(pieces).start or 0 for _, pieces in words][1:]


def _written(prompt: Prompt, cut: str | None) -> list[PartSpan]:
    if prompt.generated is None or prompt.generated.start is None or not prompt.generated.tokens:
        return []
    start, end = prompt.generated.start, len(prompt.text)
    pieces = _pieces(prompt, cut, start, end) if cut else []
    if len(pieces) < 2:
        return [PartSpan(start, end, "generated")]
    return [PartSpan(*piece, f"generated {number}") for number, piece in enumerate(pieces, 1)]


def _name_outside(token: Token, prompt: Prompt) -> str:
    if token.start is not None:
        return "template"
    if token.image is not None:
        return f"image {token.image}"
    return "image" if "image" in prompt.files and not token.special else "special"


def _places_of(tokens: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    placed = {token.index: (token.start, token.end or 0) for token in tokens if token.start is not None}
    return tuple((placed[first][0], placed[stop - 1][1]) for first, stop in adjacent([*placed]))
