"""The sums of a scan as arrays, for a file or another process, and read again: what no scan has written is refused."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson

from attn_cli.scans.numbers.document_numbers import BASELINE_NAMES, NAMES, STATISTIC_NAMES
from attn_cli.scans.numbers.examples import EXAMPLE_KINDS, MOST, Examples, Excerpt
from attn_cli.scans.numbers.ranges import POSITIONS, STEPS
from attn_cli.scans.read.poison import PoisonRecord, PoisonRecords
from attn_cli.scans.sums.blocks import MOST as MOST_BLOCKS
from attn_cli.scans.sums.blocks import Blocks
from attn_cli.scans.sums.quantiles import Quantiles
from attn_cli.scans.sums.sums import ModuleHeads, ModuleSums, Moments, PartSums, Ranges, ScanSums, TokenCounts

SumArrays = dict[str, np.ndarray]
"""`ScanSums` as arrays by name."""

_GROUPS: dict[str, tuple[type, tuple[str, ...]]] = {
    "values": (Moments, ("count", "mean", "squares")),
    "baselines": (Moments, ("count", "mean", "squares")),
    "distances": (Ranges, ("weight", "even")),
    "positions": (Ranges, ("weight", "even")),
    "tokens": (TokenCounts, ("ids", "to", "of_query", "rows", "lost")),
}
_CELLS = ("document", "piece", "query", "key")
_BLOCKS = ("number", "count", "total")


def arrays_of(sums: ScanSums) -> SumArrays:
    """The sums of a scan as arrays by name; `about` is a JSON document with all else, as bytes."""
    about = {
        "documents": sums.documents, "tokens": sums.tokens, "records": sums.records,
        "poison": [sums.poison.reasons, [list(record) for record in sums.poison.named]],
        "modules": [_head_of(module) for module in sums.modules.values()],
    }  # fmt: skip
    arrays = {"about": _bytes(about)}
    for number, module in enumerate(sums.modules.values()):
        for name, array in _arrays_of(module).items():
            arrays[f"{number}.{name}"] = array
    return arrays


def _head_of(sums: ModuleSums) -> dict[str, Any]:
    return {"place": vars(sums.place), "documents": sums.documents, "parts": sums.parts.names, "rows": sums.parts.rows,
            "step": sums.blocks.step}  # fmt: skip


def _arrays_of(sums: ModuleSums) -> SumArrays:
    arrays = {f"{group}.{name}": getattr(getattr(sums, group), name)
              for group, (_, names) in _GROUPS.items() for name in names}  # fmt: skip
    arrays |= {f"examples.{name}": getattr(sums.examples, name) for name in ("weight", *_CELLS)}
    arrays["examples.excerpt"] = _bytes(
        [None if excerpt is None else list(excerpt) for excerpt in sums.examples.excerpt.reshape(-1).tolist()]
    )
    arrays |= {f"blocks.{name}": getattr(sums.blocks, name) for name in _BLOCKS}
    arrays |= {"parts.weight": sums.parts.weight, "parts.even": sums.parts.even}
    return arrays | {f"quantiles.{name}": x for name, x in sums.quantiles.arrays().items()}


def _bytes(content: Any) -> np.ndarray:
    return np.frombuffer(orjson.dumps(content), np.uint8)


def sums_of(arrays: Mapping[str, np.ndarray]) -> ScanSums:
    """The sums that were written as these arrays by `arrays_of`; ValueError, KeyError or TypeError for others."""
    about = orjson.loads(arrays["about"].tobytes())
    modules = [_module_of(head, arrays, f"{number}.") for number, head in enumerate(about["modules"])]
    reasons, named = about["poison"]
    poison = PoisonRecords(reasons, (PoisonRecord(*record) for record in named))
    for count in (*(about[name] for name in ("documents", "tokens", "records")), *poison.reasons.values()):
        count_of(count)
    for record in poison.named:
        _expect_types(record)
    by_key = {sums.place.key: sums for sums in modules}
    _expect(len(by_key) == len(modules), "a module stands there twice")
    return ScanSums(about["documents"], about["tokens"], about["records"], poison, by_key)


def _module_of(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray], lead: str) -> ModuleSums:
    place = ModuleHeads(**head["place"] | {name: tuple(head["place"][name]) for name in ("heads", "groups")})
    for number in (*place.heads, *place.groups, place.layer, place.call):
        count_of(number, 2**31)
    _expect(len(place.heads) == len(place.groups), "not every head reads a key head")
    _expect(type(place.stream) is type(place.name) is str, "a module has no name")
    read = _Arrays(arrays, lead, {"h": len(place.heads)} | _SIZES)
    groups = {group: kind(*(read(f"{group}.{name}") for name in names)) for group, (kind, names) in _GROUPS.items()}
    rows = groups["baselines"].mean * groups["baselines"].count
    _expect(bool((np.abs(rows) < 2.0**62).all()), "baselines are out of range")
    return ModuleSums(
        place, count_of(head["documents"]), **groups, quantiles=_quantiles_of(read), examples=_examples_of(read),
        parts=_parts_of(head, read), blocks=_blocks_of(head, read),
    )  # fmt: skip


class _Arrays(NamedTuple):
    """Arrays of one module, each checked; `sizes` of axes by letter, each fixed by the first array that has it."""

    arrays: Mapping[str, np.ndarray]
    lead: str
    sizes: dict[str, int]

    def __call__(self, name: str) -> np.ndarray:
        array, (kind, axes) = self.arrays[self.lead + name], _SHAPES[name]
        _expect(array.dtype in map(np.dtype, kind.split()), f"{name} is of {array.dtype}")
        _expect(array.ndim == len(axes), f"{name} has {array.ndim} axes")
        for letter, size in zip(axes, array.shape, strict=True):
            _expect(self.sizes.setdefault(letter, size) == size, f"{name} has the wrong size")
        if name.startswith("examples.") and array.dtype.kind == "i":  # -1 where there is none
            _expect(bool(((array >= -1) & (array < 2**31)).all()), f"{name} is out of range")
        elif array.dtype.kind in "iu":
            _expect(bool(((array >= 0) & (array < 2**62)).all()), f"{name} is out of range")
        return array


_SIZES = {"V": len(NAMES), "C": len(BASELINE_NAMES), "S": len(STATISTIC_NAMES), "D": STEPS, "P": POSITIONS,
          "K": len(EXAMPLE_KINDS), "R": MOST, "2": 2}  # fmt: skip
# The types and axes of a module's arrays: h heads, U tokens, b blocks, p parts, q digests; letters of _SIZES.
_SHAPES = {
    "values.count": ("i8", "Vh"), "values.mean": ("f8", "Vh"), "values.squares": ("f8", "Vh"),
    "baselines.count": ("i8", "C"), "baselines.mean": ("f8", "C"), "baselines.squares": ("f8", "C"),
    "distances.weight": ("f8", "hD"), "distances.even": ("f8", "D"),
    "positions.weight": ("f8", "hP"), "positions.even": ("f8", "P"),
    "tokens.ids": ("i8", "U"), "tokens.to": ("u4 u8", "hU"), "tokens.of_query": ("u4 u8", "hU"),
    "tokens.rows": ("i8 u8", "U"), "tokens.lost": ("i8", "h2"),
    "examples.weight": ("f4", "hKR"), **{f"examples.{name}": ("i8", "hKR") for name in _CELLS},
    "examples.excerpt": ("u1", "e"),
    "blocks.number": ("i8", "b"), "blocks.count": ("u4", "bSh"), "blocks.total": ("f8", "bSh"),
    "parts.weight": ("f8", "hp"), "parts.even": ("f8", "p"),
    "quantiles.bytes": ("u1", "B"), "quantiles.sizes": ("i8", "q"),
}  # fmt: skip


def _quantiles_of(read: _Arrays) -> Quantiles:
    content, sizes = read("quantiles.bytes"), read("quantiles.sizes")
    _expect(len(sizes) == read.sizes["h"] * read.sizes["S"], "quantiles of other heads")
    _expect(int(sizes.sum()) == len(content), "quantiles of another length")
    return Quantiles.from_arrays(content, sizes).checked()


def _examples_of(read: _Arrays) -> Examples:
    numbers = {name: read(f"examples.{name}") for name in ("weight", *_CELLS)}
    excerpts = np.full(numbers["weight"].size, None, object)
    texts = orjson.loads(read("examples.excerpt").tobytes())
    _expect(len(texts) == len(excerpts), "not every example has a text")
    for at, each in enumerate(texts):
        excerpts[at] = None if each is None else Excerpt(*each)
        if each is not None:
            _expect_types(excerpts[at])
    return Examples(**numbers, excerpt=excerpts.reshape(numbers["weight"].shape))


def _parts_of(head: Mapping[str, Any], read: _Arrays) -> PartSums:
    names, rows = tuple(head["parts"]), head["rows"]
    _expect(all(isinstance(name, str) for name in names) and len({*names}) == len(names), "a part has no name")
    _expect(isinstance(rows, int | float) and (rows > 0 or not names), "parts have no rows")
    read.sizes["p"] = len(names)
    return PartSums(names, read("parts.weight"), read("parts.even"), rows)


def _blocks_of(head: Mapping[str, Any], read: _Arrays) -> Blocks:
    number, count, total = (read(f"blocks.{name}") for name in _BLOCKS)
    _expect(bool((number < MOST_BLOCKS).all() and (np.diff(number) > 0).all()), "blocks are out of order")
    return Blocks(count_of(head["step"], 40), number, count, total)


def count_of(value: Any, below: int = 2**62) -> int:
    """`value`, if it is a whole number from 0 up to and without `below`; else ValueError."""
    _expect(type(value) is int and 0 <= value < below, "a count is out of range")
    return value


def _expect_types(record: NamedTuple) -> None:
    for value, kind in zip(record, type(record).__annotations__.values(), strict=True):
        _expect(type(value) is kind, f"{type(record).__name__} holds something else")
        _expect(kind is not int or -1 <= value < 2**31, f"{type(record).__name__} holds a number out of range")


def _expect(holds: bool, broken: str) -> None:
    if not holds:
        raise ValueError(broken)
