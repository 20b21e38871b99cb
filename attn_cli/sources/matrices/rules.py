"""The rule from q kᵀ to the weights: scale, bias, softcap, sink, and the masks of `--mask`, one entry per name."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.bias import Alibi, BiasSum, alibi_slopes
from attn_cli.kernel.definition.mask import Mask, all_of, causal, dilated, given_mask, padding, prefix, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.files.paths import leads_somewhere
from attn_cli.sources.files.text import is_typed
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.shapes import ScoreShape, fitted, of_entry
from attn_cli.sources.numbers import numbers_in, require_held

_ABOVE_0 = r"0*[1-9]\d{0,14}"
_COUNTS = r"\d{1,18}(,\d{1,18})*"


MaskOf = Callable[[tuple[int, ...], tuple[int, ...]], Mask]  # of a batch entry and some heads


class MaskEntry(NamedTuple):
    """A kind of mask that `--mask` takes by name; `make` gets its numbers, the scores' shape, and query 0's key."""

    syntax: str
    make: Callable[[list[int], ScoreShape, int], Mask | MaskOf]
    example: str = ""
    pattern: str = _ABOVE_0
    needs: str = "a whole number above 0"

    @property
    def name(self) -> str:
        """The mask's name, such as "window": the part of `syntax` before the colon."""
        return self.syntax.partition(":")[0]

    def takes(self, text: str) -> bool:
        """True if `text` is this name, with an argument if it takes one, and no file of that name is there."""
        if not self.example:
            return text == self.name
        return text.partition(":")[0] == self.name and not leads_somewhere(text)

    def numbers(self, text: str) -> list[int]:
        """The whole numbers in a value of `--mask` such as dilated:3:2; InputError where they are no such numbers."""
        argument = text.partition(":")[2]
        if self.example and not re.fullmatch(self.pattern, argument):
            raise InputError(f"--mask {text!r} needs {self.needs}", f"example: --mask {self.example}")
        return [int(number) for number in re.split("[:,]", argument)] if self.example else []


def masks_of(options: MatrixOptions, shape: ScoreShape) -> tuple[MaskOf, list[np.ndarray], list[str]]:
    """All masks that the options name as one, the numbers to be added to scores `[..., n, m]`, and notes."""
    texts = [*options.masks]
    if options.causal and not any(text.startswith("causal") for text in texts):
        texts.insert(0, "causal-bottom-right")
    masks: list[Mask | MaskOf | np.ndarray] = []
    biases: list[np.ndarray] = []
    notes: list[str] = []
    for text in texts:
        entry = next((entry for entry in MASKS if entry.takes(text)), None)
        if entry is not None:
            masks.append(entry.make(entry.numbers(text), shape, offset := offset_of(options, shape.n, shape.m)))
            if entry.syntax in ("causal", "sliding:W") and offset == 0 and shape.n != shape.m:
                sizes = f"(n = {shape.n}, m = {shape.m})"
                notes.append(f"{text}, first query with first key {sizes}, --mask causal-bottom-right aligns the last")
            continue
        allowed, bias, note = _read_mask(text, shape)
        masks += [] if allowed is None else [allowed]
        biases += [] if bias is None else [bias]
        notes += [note] if note else []

    def mask(at: tuple[int, ...], heads: tuple[int, ...]) -> Mask:
        entries = (each(at, heads) if callable(each) else each for each in masks)
        return all_of(*(x if isinstance(x, Mask) else given_mask(of_entry(x, at, heads)) for x in entries))

    return mask, biases, notes


def offset_of(options: MatrixOptions, n: int, m: int) -> int:
    """The index of the key that query 0 stands at: that of causal:OFFSET, or m - n for queries at the end, else 0."""
    given = next((text for text in options.masks if re.fullmatch(r"causal:-?\d+", text)), None)
    if given is not None:
        return int(given.partition(":")[2])
    at_end = "causal-bottom-right" in options.masks or (options.causal and "causal" not in options.masks)
    return m - n if at_end else 0


def _lengths(lengths: list[int], shape: ScoreShape, _: int) -> MaskOf:
    text, entries = f"--mask 'lengths:{','.join(map(str, lengths))}'", math.prod(shape.lead)
    if len(lengths) not in (1, entries):
        raise InputError(f"{text} has {len(lengths)} lengths for {entries} batch entries", "one each, or one")
    if max(lengths) > shape.m:
        raise InputError(f"{text} is longer than the {shape.m} keys", "how many of the keys are real")
    of_entries = np.array(lengths * (entries if len(lengths) == 1 else 1)).reshape(shape.lead)
    return lambda at, heads: padding(np.arange(shape.m) < of_entries[at])


MASKS = (
    MaskEntry("none", lambda _, shape, offset: Mask()),
    MaskEntry("causal", lambda _, shape, offset: causal()),
    MaskEntry("causal-bottom-right", lambda _, shape, offset: causal(shape.m - shape.n)),
    MaskEntry(
        "causal:OFFSET", lambda numbers, shape, offset: causal(numbers[0]), "causal:2", r"-?\d{1,18}", "a whole number"
    ),
    MaskEntry("window:W", lambda numbers, shape, offset: window(numbers[0], offset, both_sides=True), "window:3"),
    MaskEntry(
        "sliding:W", lambda numbers, shape, offset: all_of(causal(offset), window(numbers[0], offset)), "sliding:3"
    ),
    MaskEntry(
        "dilated:W:D",
        lambda numbers, shape, offset: dilated(numbers[0], numbers[1], offset),
        "dilated:3:2",
        f"{_ABOVE_0}:{_ABOVE_0}",
        "2 whole numbers above 0",
    ),
    MaskEntry("prefix:P", lambda numbers, shape, offset: prefix(numbers[0], offset), "prefix:2"),
    MaskEntry("lengths:L,L,...", _lengths, "lengths:3,5", _COUNTS, "whole numbers, one per batch entry"),
)

MASK_HELP = (
    "causal, causal-bottom-right (aligns windows, too), causal:OFFSET (keys up to i + OFFSET), window:W, sliding:W "
    "(a causal window), dilated:W:D (window:W of keys D apart), prefix:P, lengths:L,L, or a file (1 = may attend, or "
    "additive; bool:FILE and additive:FILE say which). Several are combined."
)


def _read_mask(text: str, shape: ScoreShape) -> tuple[np.ndarray | None, np.ndarray | None, str]:
    """The cells `[..., n, m]` that a file allows, the numbers that it adds to scores, and how it was read."""
    kind, _, path = text.partition(":")
    file = path if kind in ("bool", "additive") and path else text
    exists = Path(file.rpartition(":")[0] or file).expanduser().exists() or Path(file).exists()
    if file != "-" and not exists and not is_typed(file):
        names = ", ".join(entry.syntax for entry in MASKS)
        raise InputError(f"--mask {text!r} is neither a mask nor a file", f"one of {names}, or a file")
    cells = read_array(file, name="mask")
    is_boolean = cells.dtype == np.bool_ or bool(np.isin(cells, (0, 1)).all())
    if kind == "bool" and not is_boolean:
        raise InputError(f"{file} holds other numbers than 0 and 1", "additive:FILE adds them to the scores")
    if is_boolean and kind != "additive":
        is_square = cells.shape[:-1] == shape.entries == (shape.n,)  # it could be of each entry's keys
        note = f"{file}: read as 1 = may attend, 0 = blocked{', in rows of queries' if is_square else ''}"
        return fitted(cells.astype(bool), "mask", shape), None, "" if kind == "bool" else note
    numbers = cells.astype(np.float64) if cells.dtype == np.bool_ else cells
    allowed = numbers > np.finfo(numbers.dtype).min / 2
    bias = fitted(np.where(allowed, numbers, 0).astype(shape.dtype), "mask", shape)
    note = "" if kind == "additive" else f"{file}: read as additive (-inf or the lowest number blocks)"
    return None if allowed.all() else fitted(allowed, "mask", shape), bias, note


RuleOf = Callable[[tuple[int, ...], tuple[int, ...]], Rule]  # of a batch entry and some heads


def rule_of(options: MatrixOptions, shape: ScoreShape) -> tuple[RuleOf, Sequence[str]]:
    """How scores become weights, as the options say, and notes; InputError where one doesn't fit the scores."""
    mask, biases, notes = masks_of(options, shape)
    scale, softmax, softcap, fixed = 0.0, options.weights != "scores", options.softcap, options.weights
    slopes = sink = None
    if not options.has_fixed_weights:
        scale = _scale("off" if options.scale is None and options.scores is not None else options.scale, shape)
        slopes = None if options.alibi is None else _slopes(options.alibi, shape)
        sink = None if options.sink is None else _sink(options.sink, shape)
        if softcap is not None:
            if not (math.isfinite(softcap) and softcap > 0):
                raise InputError(f"--softcap {softcap:g} is not above 0", "Gemma 2 uses 50")
            require_held(softcap, "--softcap", shape.dtype)
    elif fixed is not None and fixed != "uniform":
        cells = np.ones((1, 1)) if fixed == "sum" else read_array(fixed, name="weights")
        require_held(cells, "weights", shape.dtype)
        biases, softmax = [fitted(cells.astype(shape.dtype), "weights", shape)], False
    offset = offset_of(options, shape.n, shape.m)

    def rule(at: tuple[int, ...], heads: tuple[int, ...]) -> Rule:
        alibi = [] if slopes is None else [Alibi(slopes[list(heads)], offset)]
        added = [*(of_entry(numbers, at, heads) for numbers in biases), *alibi]
        bias = None if not added else added[0] if len(added) == 1 else BiasSum(added)
        return Rule(scale, softcap, bias, mask(at, heads), None if sink is None else sink[list(heads)], softmax)

    return rule, notes


def _scale(text: str | None, shape: ScoreShape) -> float:
    if text is None or text == "on":
        return float(shape.d**-0.5)
    if text == "off":
        return 1.0
    try:
        scale = float(text)
    except ValueError:
        hint = "a number, off, or leave it out for 1 / sqrt(d)"
        raise InputError(f"--scale {text!r} is not a number", hint) from None
    if not math.isfinite(scale):
        raise InputError(f"--scale {text} is not a finite number", "leave it out for 1 / sqrt(d)")
    require_held(scale, "--scale", shape.dtype)
    return scale


def _slopes(text: str, shape: ScoreShape) -> np.ndarray:
    if text == "paper":
        return np.array(alibi_slopes(shape.h), dtype=shape.dtype)
    option = "--positions alibi"
    numbers = np.array(numbers_in(text, option, f"one per head: {option} 0.5,0.25"))
    slopes = _per_head(numbers, option, f"{option} has {len(numbers)} slopes", shape)
    with np.errstate(over="ignore"):
        furthest = slopes * max(shape.n, shape.m)
    if not np.isfinite(furthest).all():
        raise InputError(f"{option}:{text}: slope x distance is larger than {shape.dtype} holds", "give smaller slopes")
    return slopes


def _sink(text: str, shape: ScoreShape) -> np.ndarray:
    numbers = read_array(text, name="sink").reshape(-1)
    return _per_head(numbers, "sink", f"sink has {len(numbers)} numbers", shape)


def _per_head(numbers: np.ndarray, name: str, counted: str, shape: ScoreShape) -> np.ndarray:
    if len(numbers) not in (1, shape.h):
        raise InputError(f"{counted} for {shape.h} heads", "one per head, or one for all")
    require_held(numbers, name, shape.dtype)
    return np.broadcast_to(numbers, shape.h).astype(shape.dtype)
