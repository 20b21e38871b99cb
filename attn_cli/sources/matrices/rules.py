"""The rule from q kᵀ to the weights, built from options: masks, bias, softcap, sink, scale."""

import math
from dataclasses import dataclass

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.bias import Alibi, Bias, BiasSum, GivenBias, alibi_slopes
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.matrices.mask_syntax import MaskParts, masks_of, offset_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.shapes import ScoreShape, fitted, of_entry
from attn_cli.sources.numbers import numbers_in, require_held


@dataclass(frozen=True, eq=False)
class RuleParts:
    """Scale, masks, biases, softcap and sink for all batch entries and heads.

    biases   numbers `[..., n, m]` to be added to scores, each perhaps with batch and head axes
    slopes   ALiBi's, one per head `[h]`; None for none
    offset   the index of the key that query 0 stands at, for ALiBi
    sink     one learned score per head in the softmax's sum `[h]`; None for none
    """

    scale: float
    m: int
    masks: MaskParts
    biases: tuple[np.ndarray, ...] = ()
    softcap: float | None = None
    softmax: bool = True
    slopes: np.ndarray | None = None
    offset: int = 0
    sink: np.ndarray | None = None

    def rule(self, at: tuple[int, ...], number: int, heads: tuple[int, ...]) -> Rule:
        """How scores become weights in one batch entry, for these heads (indices): scale, softcap, bias, mask, sink."""
        biases: list[Bias] = [GivenBias(of_entry(numbers, at, heads)) for numbers in self.biases]
        if self.slopes is not None:
            biases.append(Alibi(self.slopes[list(heads)], self.offset))
        bias = None if not biases else biases[0] if len(biases) == 1 else BiasSum(biases)
        sink = None if self.sink is None else self.sink[list(heads)]
        return Rule(self.scale, self.softcap, bias, self.masks.mask(self.m, at, number, heads), sink, self.softmax)


def rule_of(options: MatrixOptions, shape: ScoreShape) -> RuleParts:
    """Scale, masks, biases, softcap and sink as the options say; InputError where one doesn't fit the scores' shape."""
    masks = masks_of(options, shape)
    if options.fixed is not None:
        return _fixed(options.fixed, masks, shape)
    biases = masks.biases
    slopes = None if options.alibi is None else _slopes(options.alibi, shape)
    if options.softcap is not None:
        if not (math.isfinite(options.softcap) and options.softcap > 0):
            raise InputError(f"--softcap {options.softcap:g} is not above 0", "Gemma 2 uses 50")
        require_held(options.softcap, "--softcap", shape.dtype)
    sink = None if options.sink is None else _sink(options.sink, shape)
    return RuleParts(
        _scale("off" if options.scale is None and options.scores is not None else options.scale, shape),
        shape.m,
        masks,
        biases,
        options.softcap,
        options.softmax,
        slopes,
        offset_of(options, shape.n, shape.m),
        sink,
    )


def _fixed(text: str, masks: MaskParts, shape: ScoreShape) -> RuleParts:
    if text == "uniform":
        return RuleParts(0.0, shape.m, masks, masks.biases)
    cells = np.ones((1, 1)) if text == "sum" else read_array(text, name="weights")
    require_held(cells, "weights", shape.dtype)
    return RuleParts(0.0, shape.m, masks, (fitted(cells.astype(shape.dtype), "weights", shape),), softmax=False)


def _scale(text: str | None, shape: ScoreShape) -> float:
    if text is None or text == "on":
        return float(shape.d**-0.5)
    if text == "off":
        return 1.0
    try:
        scale = float(text)
    except ValueError:
        raise InputError(
            f"--scale {text!r} is not a number", "a number, off, or leave it out for 1 / sqrt(d)"
        ) from None
    if not math.isfinite(scale):
        raise InputError(f"--scale {text} is not a finite number", "leave it out for 1 / sqrt(d)")
    require_held(scale, "--scale", shape.dtype)
    return scale


def _slopes(text: str, shape: ScoreShape) -> np.ndarray:
    if text == "paper":
        return np.array(alibi_slopes(shape.h), dtype=shape.dtype)
    slopes = _per_head(text, "--positions alibi", "slopes", shape)
    with np.errstate(over="ignore"):
        furthest = slopes * max(shape.n, shape.m)
    if not np.isfinite(furthest).all():
        raise InputError(
            f"--positions alibi:{text}: slope x distance is larger than {shape.dtype} holds", "give smaller slopes"
        )
    return slopes


def _sink(text: str, shape: ScoreShape) -> np.ndarray:
    numbers = read_array(text, name="sink").reshape(-1)
    if len(numbers) not in (1, shape.h):
        raise InputError(f"sink has {len(numbers)} numbers for {shape.h} heads", "one per head, or one for all")
    require_held(numbers, "sink", shape.dtype)
    return np.broadcast_to(numbers, shape.h).astype(shape.dtype)


def _per_head(text: str, option: str, noun: str, shape: ScoreShape) -> np.ndarray:
    numbers = numbers_in(text, option, f"one per head: {option} 0.5,0.25")
    if len(numbers) not in (1, shape.h):
        raise InputError(f"{option} has {len(numbers)} {noun} for {shape.h} heads", "one per head, or one for all")
    require_held(np.array(numbers), option, shape.dtype)
    return np.array(numbers * (shape.h if len(numbers) == 1 else 1), dtype=shape.dtype)
