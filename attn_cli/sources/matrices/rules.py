"""The rule between q kᵀ and the weights, from what the user named: masks, bias, softcap, sink, scale."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.bias import Added, Alibi, Bias, Summed, alibi_slopes
from attn_cli.kernel.definition.masks import Causal, Given, Keys, Mask, Prefix, Window, both
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.files import read_array
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.numbers import numbers_in

MASKS = ("none", "causal", "causal-top-left", "causal-bottom-right", "window:W", "prefix:P", "lengths:L,L,...")


@dataclass(frozen=True)
class Sizes:
    """What a rule must fit: the batch axes, h heads, n queries, m keys, head size d, and the precision of scores."""

    lead: tuple[int, ...]
    h: int
    n: int
    m: int
    d: int
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class RuleParts:
    """A rule before it is cut to one batch entry and some heads.

    masks    for all entries alike
    cells    given booleans `[..., n, m]`, each with batch and head axes of its own or without
    lengths  how many keys are real: one number, or one per batch entry; None for all
    biases   numbers `[..., n, m]` likewise
    slopes   ALiBi's, one per head; offset as in a causal mask
    sink     one score per head
    """

    scale: float
    softcap: float | None = None
    softmax: bool = True
    masks: tuple[Mask, ...] = ()
    cells: tuple[np.ndarray, ...] = ()
    lengths: tuple[int, ...] | None = None
    biases: tuple[np.ndarray, ...] = ()
    slopes: np.ndarray | None = None
    offset: int = 0
    sink: np.ndarray | None = None
    m: int = 0
    notes: tuple[str, ...] = field(default=())

    def rule(self, at: tuple[int, ...], number: int, heads: tuple[int, ...]) -> Rule:
        """The rule of batch entry `at`, the `number`-th, for some heads."""
        masks = [*self.masks]
        if self.lengths is not None:
            masks.append(Keys(np.arange(self.m) < self.lengths[number if len(self.lengths) > 1 else 0]))
        masks += [Given(of_entry(cells, at, heads)) for cells in self.cells]
        biases: list[Bias] = [Added(of_entry(numbers, at, heads)) for numbers in self.biases]
        if self.slopes is not None:
            biases.append(Alibi(self.slopes[list(heads)], self.offset))
        bias = None if not biases else biases[0] if len(biases) == 1 else Summed(biases)
        sink = None if self.sink is None else self.sink[list(heads)]
        return Rule(self.scale, self.softcap, bias, both(*masks), sink, self.softmax)


def rule_of(options: MatrixOptions, sizes: Sizes) -> RuleParts:
    """Everything between q kᵀ and the weights, read and checked against the sizes."""
    parts = _masks(options, sizes)
    if options.fixed is not None:
        return RuleParts(**(parts | _fixed(options.fixed, sizes, options.allow_nonfinite)), m=sizes.m)
    if options.bias is not None:
        numbers = read_array(options.bias, name="bias", allow_nonfinite=options.allow_nonfinite)
        _check_cells(numbers, "bias", sizes)
        parts["biases"] += (numbers.astype(sizes.dtype),)
    slopes = None if options.alibi is None else _slopes(options.alibi, sizes)
    if options.softcap is not None and not (math.isfinite(options.softcap) and options.softcap > 0):
        raise InputError(f"--softcap {options.softcap:g} is not above 0", "Gemma 2 uses 50")
    sink = None if options.sink is None else _sink(options.sink, sizes)
    scale = _scale(options.scale, sizes.d)
    return RuleParts(
        scale, options.softcap, options.softmax, slopes=slopes, sink=sink, m=sizes.m, **parts
    )  # fmt: skip


def of_entry(cells: np.ndarray, at: tuple[int, ...], heads: tuple[int, ...]) -> np.ndarray:
    """The part `[n, m]` or `[h, n, m]` of a mask or bias for one batch entry; axes of length 1 serve all entries."""
    while cells.ndim > 3:
        place = at[len(at) - (cells.ndim - 3)]
        cells = cells[place if cells.shape[0] > 1 else 0]
    if cells.ndim == 3:
        return cells[0] if cells.shape[0] == 1 else cells[list(heads)]
    return cells


def offset_of(options: MatrixOptions, n: int, m: int) -> int:
    """How far query 0 stands behind key 0: m - n where the last query is aligned with the last key, else 0."""
    return m - n if "causal-bottom-right" in options.masks or (options.causal and _unnamed(options)) else 0


def _unnamed(options: MatrixOptions) -> bool:
    return not any(spec in ("causal", "causal-top-left") for spec in options.masks)


def _masks(options: MatrixOptions, sizes: Sizes) -> dict[str, Any]:
    """All that `--mask` says: masks, cells, lengths, biases, and notes on how they were read."""
    n, m = sizes.n, sizes.m
    offset = offset_of(options, n, m)
    found: dict[str, Any] = {"masks": (), "cells": (), "lengths": None, "biases": (), "notes": (), "offset": offset}
    specs = [*options.masks]
    if options.causal and not any(spec.startswith("causal") for spec in specs):
        specs.insert(0, "causal-bottom-right")
    for spec in specs:
        name, _, number = spec.partition(":")
        if spec == "none":
            continue
        if spec in ("causal", "causal-top-left"):
            found["masks"] += (Causal(),)
            if spec == "causal" and n != m:
                found["notes"] += (
                    f"causal, first query with first key (n = {n}, m = {m}); "
                    "--mask causal-bottom-right aligns the last",
                )
        elif spec == "causal-bottom-right":
            found["masks"] += (Causal(m - n),)
        elif name == "window" and not Path(spec).exists():
            found["masks"] += (Window(_whole(number, spec, "window:3"), offset, both_sides=True),)
        elif name == "prefix" and not Path(spec).exists():
            found["masks"] += (Prefix(_whole(number, spec, "prefix:2"), offset),)
        elif name == "lengths" and not Path(spec).exists():
            found["lengths"] = _lengths(number, spec, sizes)
        else:
            _read_cells(spec, sizes, options.allow_nonfinite, found)
    return found


def _whole(number: str, spec: str, example: str) -> int:
    if not re.fullmatch(r"\d+", number) or int(number) < 1:
        raise InputError(f"--mask {spec!r} needs a whole number above 0", f"example: --mask {example}")
    return int(number)


def _lengths(numbers: str, spec: str, sizes: Sizes) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(,\d+)*", numbers):
        raise InputError(f"--mask {spec!r} needs whole numbers", "one per batch entry: --mask lengths:3,5")
    lengths = tuple(int(number) for number in numbers.split(","))
    entries = math.prod(sizes.lead)
    if len(lengths) not in (1, entries):
        raise InputError(f"--mask {spec!r} has {len(lengths)} lengths for {entries} batch entries", "one each, or one")
    if max(lengths) > sizes.m:
        raise InputError(f"--mask {spec!r} is longer than the {sizes.m} keys", "how many of the keys are real")
    return lengths


def _read_cells(spec: str, sizes: Sizes, allow_nonfinite: bool, found: dict[str, Any]) -> None:
    """A mask from a file: booleans or 0 and 1 mean "may attend", other numbers are added; a prefix says which."""
    kind, _, rest = spec.partition(":")
    file = rest if kind in ("bool", "additive") and rest else spec
    known = Path(file.rpartition(":")[0] or file).expanduser().exists() or Path(file).exists()
    if file != "-" and not known:
        raise InputError(f"--mask {spec!r} is neither a mask nor a file", f"one of {', '.join(MASKS)}, or a file")
    cells = read_array(file, name="mask", allow_nonfinite=allow_nonfinite)
    _check_cells(cells, "mask", sizes)
    ones = cells.dtype == np.bool_ or bool(np.isin(cells, (0, 1)).all())
    if kind == "bool" and not ones:
        raise InputError(f"{file} holds other numbers than 0 and 1", "additive:FILE adds them to the scores")
    if ones and kind != "additive":
        found["cells"] += (cells.astype(bool),)
        found["notes"] += (f"{file}: read as 1 = may attend, 0 = blocked",) if kind != "bool" else ()
        return
    numbers = cells.astype(np.float64) if cells.dtype == np.bool_ else cells
    allowed = numbers > np.finfo(numbers.dtype).min / 2
    found["cells"] += (allowed,)
    found["biases"] += (np.where(allowed, numbers, 0).astype(sizes.dtype),)
    found["notes"] += (f"{file}: read as additive (-inf or the lowest number blocks)",) if kind != "additive" else ()


def _check_cells(cells: np.ndarray, name: str, sizes: Sizes) -> None:
    n, m = sizes.n, sizes.m
    if cells.shape[-2:] != (n, m):
        slip = ": is it transposed?" if cells.shape[-2:] == (m, n) else ""
        raise InputError(f"{name} has shape {cells.shape} but q and k make {n} x {m}",
                         f"rows are queries, columns keys{slip}")  # fmt: skip
    known = (*sizes.lead, sizes.h)
    axes = zip(cells.shape[-3::-1], known[::-1], strict=False)
    if cells.ndim > len(known) + 2 or any(size not in (1, expected) for size, expected in axes):
        raise InputError(
            f"{name} has shape {cells.shape} but q has batch and head axes {known}",
            "each of those axes is as long as q's, or 1, or left out from the front",
        )


def _scale(said: str | None, d: int) -> float:
    if said is None or said == "on":
        return float(d**-0.5)
    if said == "off":
        return 1.0
    try:
        scale = float(said)
    except ValueError:
        raise InputError(
            f"--scale {said!r} is not a number", "a number, off, or leave it out for 1 / sqrt(d)"
        ) from None
    if not math.isfinite(scale):
        raise InputError(f"--scale {said} is not a finite number", "leave it out for 1 / sqrt(d)")
    return scale


def _slopes(said: str, sizes: Sizes) -> np.ndarray:
    if said == "paper":
        return np.array(alibi_slopes(sizes.h), dtype=sizes.dtype)
    return _per_head(said, "--alibi", "slopes", sizes)


def _sink(said: str, sizes: Sizes) -> np.ndarray:
    if re.match(r"[-+.\d]+(e[-+]?\d+)?(,|$)", said) and said != "-":
        return _per_head(said, "--sink", "scores", sizes)
    numbers = read_array(said, name="sink").reshape(-1)
    if numbers.shape[0] != sizes.h:
        raise InputError(f"sink has {numbers.shape[0]} numbers for {sizes.h} heads", "one score per head")
    return numbers.astype(sizes.dtype)


def _per_head(said: str, option: str, noun: str, sizes: Sizes) -> np.ndarray:
    numbers = numbers_in(said, option, f"one per head: {option} 0.5,0.25")
    if len(numbers) not in (1, sizes.h):
        raise InputError(f"{option} has {len(numbers)} {noun} for {sizes.h} heads", "one per head, or one for all")
    return np.array(numbers * (sizes.h if len(numbers) == 1 else 1), dtype=sizes.dtype)


def _fixed(said: str, sizes: Sizes, allow_nonfinite: bool) -> dict[str, Any]:
    """Weights that look at no scores: equal shares are the softmax of equal scores, given ones are a bias on zeros."""
    if said == "uniform":
        return {"scale": 0.0}
    cells = read_array(said, name="fixed", allow_nonfinite=allow_nonfinite)
    _check_cells(cells, "fixed", sizes)
    return {"scale": 0.0, "softmax": False, "biases": (cells.astype(sizes.dtype),)}
