"""attn bisect: the first station at which a dump differs from the reference, where in it, and the likely cause."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, FLAG, NUMBER, TEXT, Field, Object, Output, Rows, each, or_none
from attn_cli.kernel.lessons.precision import precision_of
from attn_cli.model.stations import Reference, Station
from attn_cli.selection import ranges
from attn_cli.summaries.bisect.causes import FoundCause, cause_of
from attn_cli.summaries.bisect.comparison import Compared, HeldAgainst
from attn_cli.summaries.bisect.errors import Errors, errors_of
from attn_cli.summaries.bisect.placing import Placed, StationNames, Unplaced, placed_arrays
from attn_cli.summaries.report import Answer
from attn_cli.text import excerpt

_GROWN = 3.0  # times the errors of the first quarter that those of the last have, where they grow


def where_wrong(errors: Errors, over: np.ndarray) -> str:
    """Which positions and heads of an array are wrong, in words.

    >>> ones = np.ones((3, 2))
    >>> where_wrong(Errors(0, ones, ones), np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0]]))
    'differs from position 1 on · head 0'
    """
    bad = over > 1
    rows, heads = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    places = rows + errors.start
    parts = [_positions(places, errors.start, errors.start + len(over))]
    relative = (errors.error / np.maximum(errors.size, 1e-30)).max(axis=1)[rows]
    quarter = len(rows) // 4
    if quarter and np.isfinite(relative).all() and relative[-quarter:].mean() > _GROWN * relative[:quarter].mean():
        parts[0] += ", and more at later positions"
    if not np.isfinite(errors.error).all():
        parts.append("NaN or Inf")
    if bad.shape[1] > 1:
        named = ranges(heads.tolist())
        parts.append("all heads" if len(heads) == bad.shape[1] else f"head{'s' if len(heads) > 1 else ''} {named}")
    return " · ".join(parts)


def _positions(places: np.ndarray, start: int, stop: int) -> str:
    first, last = int(places[0]), int(places[-1])
    if len(places) == 1:
        return f"differs at position {first}"
    share = len(places) / (last - first + 1)
    if first == start and last == stop - 1 and share > 0.9:
        return "differs at every position"
    if last == stop - 1 and share > 0.5:
        return f"differs from position {first} on"
    if share == 1:
        return f"differs at positions {first} to {last}"
    steps = np.diff(places)
    if len(places) > 2 and (steps == steps[0]).all():
        return f"differs at every {int(steps[0])}th position from {first} on"
    return f"differs at {len(places)} positions, the first is {first}"


class DifferingTokens(NamedTuple):
    """The first token at which a dump and a text differ.

    position    from 0
    dump, text  the id in each; None behind its last
    words       what is different, such as a missing BOS token
    """

    position: int
    dump: int | None
    text: int | None
    words: str


def differing_tokens(dump: Sequence[int], text: Sequence[int]) -> DifferingTokens | None:
    """The first token at which a dump's ids are not those of the text; None if all are.

    >>> differing_tokens([5, 6], [1, 5, 6]).words
    'the first token of the text is missing from the dump: a BOS token?'
    """
    if list(dump) == list(text):
        return None
    at = next((i for i, (a, b) in enumerate(zip(dump, text, strict=False)) if a != b), min(len(dump), len(text)))
    words = "the dump was made of other tokens"
    if list(dump) == list(text[1:]):
        words = "the first token of the text is missing from the dump: a BOS token?"
    elif list(dump[1:]) == list(text):
        words = "the dump has one token more at its beginning: a BOS token?"
    elif list(dump) == list(text[:-1]):
        words = "the last token of the text is missing from the dump: an EOS token?"
    elif list(dump[:-1]) == list(text):
        words = "the dump has one token more at its end: an EOS token?"
    return DifferingTokens(at, dump[at] if at < len(dump) else None, text[at] if at < len(text) else None, words)


_SAMPLED = 2**16  # numbers of an array that tell its precision


def precision_of_arrays(arrays: Sequence[DumpArray]) -> str:
    """The lowest precision among the arrays: "bfloat16", else "float16", else "float32"."""
    found: set[str] = set()
    for array in arrays:
        name = array.precision
        if name in ("float32", "float64"):
            name = precision_of(np.asarray(array.read()).reshape(-1)[:_SAMPLED]).name
        found.add(name)
    for name in ("bfloat16", "float16"):
        if name in found or (name == "bfloat16" and any(each.startswith("float8") for each in found)):
            return name
    return "float32"


def _layer(one: Compared) -> int | None:
    return one.placed.at.layer if one.placed.at.is_of_layer else None


_TOKENS = (
    Field("position", COUNT, "of the first token that differs"),
    Field("dump", or_none(COUNT), "its id in the dump; null behind its last"),
    Field("text", or_none(COUNT), "its id in the text; null likewise"),
    Field("words", TEXT, "what is different, in words"),
)
_ARRAY = (
    Field("name", TEXT, "of the array in the dump", "placed.array.name"),
    Field("layer", or_none(COUNT), "null for a station of the whole model", _layer),
    Field("station", TEXT, "where in the layer its numbers stand", "placed.at.kind"),
    Field("first_position", COUNT, "of its first row", "placed.start"),
    Field("positions", COUNT, "how many rows it has", "placed.rows"),
    Field("wrong", FLAG, "whether its difference from what the model makes of the dump before it is more "
                         "than precision explains", "is_wrong"),
    Field("error", NUMBER, "relative, at the position and head where it is furthest beyond the noise"),
    Field("noise", NUMBER, "the honest difference there, in the dump's precision"),
)  # fmt: skip
_FIRST = (
    Field("name", TEXT, "of the array", "placed.array.name"),
    Field("layer", or_none(COUNT), "null for a station of the whole model", _layer),
    Field("station", TEXT, "where in the layer", "placed.at.kind"),
    Field("where", TEXT, "positions and heads in words", lambda one: where_wrong(one.errors, one.over)),
    Field("error", NUMBER, "relative, where it is furthest beyond the noise"),
    Field("noise", NUMBER, "the honest difference there"),
)
_MISTAKE = (
    Field("name", TEXT, "of the mistake in the register", "planted.name"),
    Field("words", TEXT, "as a sentence", "planted.words"),
    Field("layers", or_none({"type": "array", "items": COUNT}), "that have it; null for all",
          lambda one: one.layers and list(one.layers)),
)  # fmt: skip
_NEAREST = (
    Field("name", TEXT, "of the mistake", lambda one: one.mistakes[0].name),
    Field("words", TEXT, "as a sentence", lambda one: one.mistakes[0].words),
    Field("error", NUMBER, "relative, what it leaves at the first wrong station"),
)
_UNPLACED = (
    Field("name", TEXT, "of the array", "array.name"),
    Field("shape", each(COUNT), "its sizes", lambda one: list(one.array.shape)),
    Field("why", TEXT, "why it has no place"),
)


FIELDS = (
    Field("verdict", {"enum": ["equal", "wrong"]}, "equal: within what the precision explains",
          lambda answer: "equal" if answer.is_equal else "wrong"),
    Field("dump", TEXT, "its file or folder", "dump.label"),
    Field("precision", TEXT, "in which the noise was measured"),
    Field("tokens", COUNT, "of the text"),
    Field("tokens_differ", Object(_TOKENS, nullable=True), "where the dump's tokens are not the text's; null where "
          "they are, or one of both is not given", "differing"),
    Field("first", Object(_FIRST, nullable=True), "the first wrong station; null where all are equal"),
    Field("mistakes", Rows(_MISTAKE), "made together they give the dump's numbers; none where none do",
          lambda answer: answer.cause.mistakes if answer.cause else ()),
    Field("explains_all", or_none(FLAG), "whether every array is within the noise with it; null without a mistake",
          lambda answer: answer.cause.explains_all if answer.cause and answer.cause.mistakes else None),
    Field("still_wrong", Object(_FIRST, nullable=True), "the first station that is wrong with the mistake, too"),
    Field("nearest", Rows(_NEAREST), "where no mistake fits: those that leave at most half of the error there",
          lambda answer: answer.cause.nearest if answer.cause else ()),
    Field("arrays", Rows(_ARRAY), "every placed array, in the order of the pass", "judged"),
    Field("unplaced", Rows(_UNPLACED), "arrays without a place"),
)  # fmt: skip
OUTPUT = Output(
    "attn.bisect/2", "Another engine's arrays held against a model: the first that differs, and why.", FIELDS
)


@dataclass(frozen=True, eq=False)
class Bisected(Answer):
    """The verdict of `attn bisect` on a dump, the arrays that another engine saw in a forward pass.

    precision  the one in which the dump was computed, and rounding noise was measured: "float32", "bfloat16", "float16"
    tokens     how many tokens the text has
    judged     the arrays that belong to a known place in the model's pass, with their errors, in the order of the pass
    unplaced   all other arrays
    cause      the mistake that explains the first wrong array; None where none is wrong
    differing  the first token of the dump that the text doesn't have; None where all agree
    """

    name: ClassVar[str] = "bisect"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "arrays"

    dump: Dump
    precision: str
    tokens: int
    judged: tuple[Compared, ...]
    unplaced: tuple[Unplaced, ...]
    cause: FoundCause | None = None
    differing: DifferingTokens | None = None

    @property
    def is_equal(self) -> bool:
        """True where no array is wrong, and the tokens are those of the text."""
        return self.first is None and self.differing is None

    @property
    def first(self) -> Compared | None:
        """The first array, in the order of the pass, whose error rounding doesn't explain; None if there is none."""
        return next((one for one in self.judged if one.is_wrong), None)

    @property
    def still_wrong(self) -> Compared | None:
        """The first array that is wrong against a pass with the found mistakes, too; None where none is,
        or none was found.
        """
        if self.cause is None or not self.cause.mistakes:
            return None
        return next((one for one in self.cause.after if one.is_wrong), None)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of `records` by name, `[arrays]` each, one row per placed array; "" for None."""
        rows = list(self.records())
        return {name: np.array(["" if row[name] is None else row[name] for row in rows]) for name in rows[0]}


@dataclass(frozen=True)
class BisectRequest:
    """What `attn bisect` is asked about a dump, the arrays that another engine saw in a pass.

    precision  the one in which the dump was computed; None to read it off the numbers
    names      the stations (places in the pass, such as q after rotary) that names of arrays say
    until      the last layer that is compared; None for all
    differing  the first token of the dump that the text doesn't have; None where all agree
    """

    precision: str | None = None
    names: StationNames = field(default_factory=StationNames)
    until: int | None = None
    differing: DifferingTokens | None = None


def bisect(
    reference: Reference, ids: Sequence[int], dump: Dump, request: BisectRequest, step: Callable[[str], None]
) -> Bisected:
    """Which array of a dump of a pass over `ids` differs first from the model's, and which mistake explains it."""
    step("the reference's pass")
    shapes, logits = reference.shapes(ids), len(reference.logit_rows(len(ids)))
    placed, unplaced = placed_arrays(dump, shapes, len(ids), logits, request.names, request.until)
    if not placed:
        raise InputError(
            _nothing(dump, unplaced), "call arrays by layer and station, such as 3.q_rotated, or --map NAME=STATION"
        )
    at_station: dict[Station, list[Placed]] = {}
    for one in placed.values():
        at_station.setdefault(one.at, []).append(one)
    free: dict[str, Errors] = {}

    def arrive(at: Station, right: np.ndarray) -> None:
        free.update({one.array.name: errors_of(one.values(), right, one.start) for one in at_station[at]})

    reference.run(ids, at_station.keys(), arrive)
    precision = request.precision or precision_of_arrays([one.array for one in placed.values()])
    comparison = HeldAgainst(reference, ids, placed, free, precision)
    judged = tuple(comparison.compared(step))
    cause = cause_of(comparison, judged, step) if any(one.is_wrong for one in judged) else None
    return Bisected(dump, precision, len(ids), judged, tuple(unplaced), cause, request.differing)


def _nothing(dump: Dump, unplaced: Sequence[Unplaced]) -> str:
    if not unplaced:
        return f"no array of {dump.label} is of these layers"
    first = unplaced[0]
    shape = " x ".join(map(str, first.array.shape))
    return f"no array of {dump.label} has a place: {excerpt(first.array.name, 60)} is {shape}, and {first.why}"
