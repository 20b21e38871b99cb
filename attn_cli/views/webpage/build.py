"""A recording as one interactive page: the shell, the streams of data, and the rule by which a page stays small."""

import hashlib
import math
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from attn_cli.errors import LimitError
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.views.webpage.contents import Contents, title
from attn_cli.views.webpage.packing import (
    Choice,
    PackedCells,
    PackedHead,
    at_least,
    chosen_cells,
    heaviest,
    packed,
    packed_head,
)

_BYTES = 2_000_000  # of a page
_THRESHOLDS = (0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1)
_LONG = 4096  # tokens; a longer text has the heaviest keys of a row
_HEAVIEST = 16
_MANY_HEADS = 300  # more of them have smaller thumbnails
_SAMPLE = 16  # heads that say how large all will be
_SURELY = 1.1  # times the room: of so much, all that is expected may still fit
_THREADS = 2
_SAID = 200  # bytes at most of what the first stream says of rows, beside
_HIGH = 30  # for every head whose weights may be above 1

_REMARK = re.compile(r"(?<=[;,{]) // .*$", re.MULTILINE)  # behind a line of the script
_AROUND = re.compile(r" (=|=>|===|!==|&&|\|\||\?\?|\+=|-=) ")  # operators that stand in no text of the script

_Place = tuple[RecordedLayer, int]  # a layer and the index of one of its heads


@dataclass(frozen=True)
class StaticScreen:
    """What a reader of an interactive page without JavaScript gets: `html`, and in `css` the rules of its classes."""

    html: str
    css: str


@dataclass(frozen=True, eq=False)
class _Rows:
    heads: list[PackedHead | None]
    words: str
    threshold: float | None


def page_html(
    recording: Recording,
    size: int = _BYTES,
    screen: StaticScreen | None = None,
) -> bytes:
    """The interactive page of a recording, one model's pass over one text, in at most `size` bytes of HTML."""
    shell = _shell(recording, screen)
    summaries = recorded_kinds(recording)
    for pixels in _pixels(recording):
        contents = Contents(recording, pixels, summaries)
        left = size - len(shell) - len(_first_stream(contents, None))
        if left > 0 or pixels == 0:
            break
    if left <= 0:
        raise LimitError(f"a page of {size // 1000:,} kB has no room for this text: tokens and numbers alone make "
                         f"{-(-(size - left) // 1000):,} kB", "choose fewer layers with -l")  # fmt: skip
    rows = _rows(recording, left)
    lines = [_first_stream(contents, rows), *(b"" if head is None else head.data for head in rows.heads)]
    return shell.replace(b"{{data}}", b"\n".join(lines))


def _pixels(recording: Recording) -> Iterator[int]:
    heads = sum(layer.h for layer in recording.layers)
    yield from (64, 32, 16, 0) if heads <= _MANY_HEADS else (32, 16, 0)


def _first_stream(contents: Contents, rows: _Rows | None) -> bytes:
    if rows is None:
        return packed(contents.stream({})) + b" " * _SAID
    present = [head for head in rows.heads if head is not None]
    total = sum(head.total for head in present)
    kept = sum(head.kept for head in present) / total if total else 1.0
    more: dict[str, Any] = {"rows": rows.words, "threshold": rows.threshold, "kept": round(kept, 4)}
    more["absent"] = sum(head is None for head in rows.heads)
    more["high"] = {at: head.high for at, head in enumerate(rows.heads) if head is not None and head.high > 1}
    more["high"] = {str(at): high for at, high in more["high"].items()}
    return packed(contents.stream(more))


def _rows(recording: Recording, room: int) -> _Rows:
    """The heads in at most `room` bytes, ends of lines among them; None for those that no cells are kept of."""
    places = [(layer, head) for layer in recording.layers for head in range(layer.h)]
    kept = [at for at, (layer, _) in enumerate(places) if layer.is_kept]
    ends = len(places) + _HIGH * sum(not layer.rule.softmax for layer, _ in places)
    rows = _rows_of([places[at] for at in kept], room - ends)
    heads: list[PackedHead | None] = [None] * len(places)
    for at, head in zip(kept, rows.heads, strict=True):
        heads[at] = head
    return replace(rows, heads=heads)


def _rows_of(places: Sequence[_Place], room: int) -> _Rows:
    """Heads that can be computed, in at most `room` bytes."""
    longest = max((max(layer.n, layer.m) for layer, _ in places), default=0)
    if longest > _LONG:
        return _Rows(_as_many(places, heaviest(_HEAVIEST), room), f"the {_HEAVIEST} largest weights of every row", None)
    words = "weights of {} and more".format
    some = places[:: max(len(places) // _SAMPLE, 1)]
    sample = _cells(some, at_least(_THRESHOLDS[0]))
    cells: list[PackedCells] = []
    for threshold in _THRESHOLDS:
        expected = _size(_pack(some, sample, threshold)) * len(places) / max(len(some), 1)
        if expected > _SURELY * room:
            continue
        cells = cells or _cells(places, at_least(threshold))
        heads = _pack(places, cells, threshold)
        if _size(heads) <= room:
            return _Rows(list(heads), words(threshold), threshold)
    return _Rows(_as_many(places, at_least(_THRESHOLDS[-1]), room), words(_THRESHOLDS[-1]), _THRESHOLDS[-1])


def _cells(places: Sequence[_Place], choice: Choice) -> list[PackedCells]:
    with ThreadPoolExecutor(_THREADS) as pool:  # NumPy lets go of the interpreter
        return list(pool.map(lambda place: chosen_cells(place[0], place[1], choice), places))


def _pack(places: Sequence[_Place], cells: Sequence[PackedCells], threshold: float) -> list[PackedHead]:
    with ThreadPoolExecutor(_THREADS) as pool:  # and so does zlib
        layers = [layer for layer, _ in places]
        return list(pool.map(lambda layer, some: packed_head(layer, some.at_least(threshold)), layers, cells))


def _as_many(places: Sequence[_Place], choice: Choice, room: int) -> list[PackedHead | None]:
    """The heads that fit, those that spread their weight least first; None for the others."""
    heads: list[PackedHead | None] = [None] * len(places)
    order = sorted(range(len(places)), key=lambda at: _spread(*places[at]))
    for at in order:
        layer, head = places[at]
        packed_one = packed_head(layer, chosen_cells(layer, head, choice))
        if len(packed_one.data) > room:
            break
        heads[at] = packed_one
        room -= len(packed_one.data)
    return heads


def _spread(layer: RecordedLayer, head: int) -> float:
    values = layer.statistics.get("entropy_bits")
    value = math.inf if values is None else float(values[head])
    return value if math.isfinite(value) else math.inf


def _size(heads: Sequence[PackedHead]) -> int:
    return sum(len(head.data) for head in heads)


def _shell(recording: Recording, screen: StaticScreen | None) -> bytes:
    """The page without its data: its place is marked {{data}}."""
    has_picture, screen_style = recording.prompt.picture is not None, "" if screen is None else screen.css
    style = "\n".join(map(_stripped, ("page.css", *["picture.css"] * has_picture)))
    # pure functions, and what draws with them
    script = "\n".join(map(_stripped, ("rows.js", *["picture.js"] * has_picture, "page.js")))
    styles = f"{_hash(style)} {_hash(screen_style)}"
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {styles}; base-uri 'none'; form-action 'none'"
    words = {
        "policy": policy,
        "title": escape(f"{title(recording)} · attn"),
        "style": style,
        "screen_style": screen_style,
        "body": _stripped("body.html"),
        "screen": "" if screen is None else screen.html,
        "script": script,
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: words.get(match[1], match[0]), _stripped("page.html"))
    return page.encode("utf-8", "backslashreplace")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _stripped(name: str) -> str:
    text = files("attn_cli.views.webpage").joinpath(name).read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) if name.endswith(".css") else text
    lines = (line.strip() for line in text.splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    if name.endswith(".css"):
        return re.sub(r" ?\{ | \}|(?<=[:;,]) ", lambda match: match[0].strip(), text)
    return _REMARK.sub("", _AROUND.sub(r"\1", text)) if name.endswith(".js") else text
