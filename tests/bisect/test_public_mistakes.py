"""Six mistakes of other engines as their issues describe them, each replayed in a port to plain NumPy, and named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.bisect.cases import verdict
from tests.bisect.families import port_of, tiny
from tests.bisect.plain_decoder import Port, planted
from tests.bisect.ports import LLAMA3, frequencies_of, llama

IDS = np.random.default_rng(3).integers(0, 64, 40)
BASE = 10_000.0
SHORT, LONG, ORIGINAL, FACTOR = [1.0, 1.1, 1.3, 1.6], [1.5, 2.5, 6.0, 12.0], 16, 8.0
LONGROPE = {"rope_type": "longrope", "rope_theta": BASE, "short_factor": SHORT, "long_factor": LONG, "factor": FACTOR,
            "original_max_position_embeddings": ORIGINAL}  # fmt: skip
PLAIN = frequencies_of({"rope_theta": BASE}, 4)
SIZE = float(np.sqrt(1 + np.log(FACTOR) / np.log(ORIGINAL)))  # Ding et al. 2024


def named(model: Any, port: Port) -> list[str]:
    answer = verdict(model, IDS, port.run(IDS), "float32")
    assert answer.cause is not None
    assert answer.first is not None
    assert answer.cause.explains_all
    assert answer.first.placed.at.layer in (0, 2**31)
    return [one.planted.name for one in answer.cause.mistakes]


@pytest.mark.parametrize(
    ("frequencies", "size", "name"),
    [
        (PLAIN, 1.0, "rope-scaling-missing"),  # ggml-org/llama.cpp#24820: the factors of LongRoPE were dropped
        (PLAIN, SIZE, "rope-scaling-missing"),
        (PLAIN / SHORT, SIZE, "rope-short-factor"),  # ggml-org/llama.cpp#24823: chosen by the wrong length
    ],
)
def test_longrope(frequencies: np.ndarray, size: float, name: str) -> None:
    model = llama(rope_parameters=LONGROPE)
    weights, settings = port_of("llama", llama(rope_parameters={"rope_type": "default", "rope_theta": BASE}))
    right = Port(weights, replace(settings, frequencies=PLAIN / LONG, factor=SIZE))
    assert verdict(model, IDS, right.run(IDS), "float32").is_equal
    assert named(model, Port(weights, replace(settings, frequencies=frequencies, factor=size))) == [name]


@pytest.mark.parametrize(
    ("frequencies", "wrong", "name"),
    [
        (PLAIN, (), "rope-scaling-missing"),  # Blaizzy/mlx-vlm PR #1710: ten models without rope scaling
        (PLAIN / LLAMA3["factor"], (), "rope-scaling-type"),  # lablup/mlxcel#1688: llama3 applied as linear
        (None, ("rotary-pairs",), "rotary-pairs"),  # Integral2u/SharpMind PR #4: pairs for halves
    ],
)
def test_other_rotary_positions(frequencies: np.ndarray | None, wrong: tuple[str, ...], name: str) -> None:
    model = llama(rope_parameters=LLAMA3)
    weights, settings = port_of("llama", model)
    if frequencies is not None:
        settings = replace(settings, frequencies=frequencies)
    assert named(model, Port(weights, planted(settings, *wrong))) == [name]


def test_a_centred_unembedding() -> None:
    """TransformerLensOrg/TransformerLens#693: Gemma 2's logits, whose softcap comes behind the centred LM head."""
    model = tiny("gemma2")
    weights, settings = port_of("gemma2", model)
    assert named(model, Port(weights, planted(settings, "logits-centred"))) == ["logits-centred"]
