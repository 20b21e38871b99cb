"""The rule from q kᵀ to the weights, built from options: masks, bias, softcap, sink, scale."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.bias import Alibi, Bias, BiasSum, GivenBias, alibi_slopes
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.matrices.mask_syntax import masks_of, offset_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.shapes import ScoreShape, fitted, of_entry
from attn_cli.sources.numbers import numbers_in, require_held

RuleOf = Callable[[tuple[int, ...], tuple[int, ...]], Rule]  # of a batch entry and some heads


def rule_of(options: MatrixOptions, shape: ScoreShape) -> tuple[RuleOf, Sequence[str]]:
    """How scores become weights, as the options say, and notes; InputError where one doesn't fit the scores."""
    mask, biases, notes = masks_of(options, shape)
    scale, softmax, softcap = 0.0, options.softmax, options.softcap
    slopes = sink = None
    if options.fixed is None:
        scale = _scale("off" if options.scale is None and options.scores is not None else options.scale, shape)
        slopes = None if options.alibi is None else _slopes(options.alibi, shape)
        sink = None if options.sink is None else _sink(options.sink, shape)
        if softcap is not None:
            if not (math.isfinite(softcap) and softcap > 0):
                raise InputError(f"--softcap {softcap:g} is not above 0", "Gemma 2 uses 50")
            require_held(softcap, "--softcap", shape.dtype)
    elif options.fixed != "uniform":
        cells = np.ones((1, 1)) if options.fixed == "sum" else read_array(options.fixed, name="weights")
        require_held(cells, "weights", shape.dtype)
        biases, softmax = [fitted(cells.astype(shape.dtype), "weights", shape)], False
    offset = offset_of(options, shape.n, shape.m)

    def rule(at: tuple[int, ...], heads: tuple[int, ...]) -> Rule:
        added: list[Bias] = [GivenBias(of_entry(numbers, at, heads)) for numbers in biases]
        added += [] if slopes is None else [Alibi(slopes[list(heads)], offset)]
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
