"""A sample of ports to plain NumPy: mistakes are named in the layers that have them; what no register has is placed."""

import numpy as np
import pytest

from tests.bisect.cases import PortCase, is_named, is_placed, verdict
from tests.bisect.families import OUTSIDE, port_of, tiny
from tests.bisect.plain_decoder import Port, planted

IDS = np.random.default_rng(4).integers(0, 64, 24)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "qwen3", "gpt_neox", "mixtral"])
def test_a_right_port_is_equal(family: str) -> None:
    case = PortCase(family, (), "float32", 1)
    made = case.dump()
    assert made is not None
    answer = case.verdict(made.arrays)
    assert (answer.is_equal, answer.unplaced) == (True, ())


@pytest.mark.parametrize(
    ("family", "mistakes", "precision"),
    [
        ("qwen3", ("qk-norm-after-rotary",), "float32"),
        ("llama", ("norms-behind",), "float32"),
        ("mixtral", ("experts-next",), "bfloat16"),
        ("gemma2", ("window-of-other-layers",), "float32"),
        ("gpt2", ("tokens+1", "norm-kind"), "float32"),
        ("gpt2", ("mask-missing", "heads-joined-by-reshape"), "float32"),
        ("gpt_neox", ("scale-of-width", "norm-kind"), "float32"),
    ],
)
def test_mistakes_are_placed_and_named(family: str, mistakes: tuple[str, ...], precision: str) -> None:
    case = PortCase(family, mistakes, precision, 1)
    made = case.dump()
    assert made is not None
    answer = case.verdict(made.arrays)
    assert is_placed(answer, made)
    assert is_named(answer, case.names())


def test_mistakes_of_several_layers_are_named_with_their_layers() -> None:
    model = tiny("llama")
    weights, settings = port_of("llama", model)
    wrong = planted(settings, "scale-missing@0", "scale-missing@2", "gate-up-swapped")
    answer = verdict(model, IDS, Port(weights, wrong).run(IDS), "float32")
    assert answer.cause is not None
    assert {one.planted.name: one.layers for one in answer.cause.mistakes} == {
        "scale-missing": (0, 2),
        "gate-up-swapped": None,
    }
    assert answer.cause.explains_all


def test_a_mistake_that_nobody_knows_is_placed_and_has_no_cause() -> None:
    case = PortCase("llama", (OUTSIDE[2],), "float32", 1)
    made = case.dump()
    assert made is not None
    answer = case.verdict(made.arrays)
    assert is_placed(answer, made)
    assert answer.cause is not None
    assert answer.cause.mistakes == ()
    assert answer.cause.nearest == ()  # none leaves half of what is wrong, or less


def test_a_mistake_below_noise_of_another_kind_is_told_as_the_nearest() -> None:
    case = PortCase("llama", ("rotary-base",), "float32", 1)
    made = case.dump()
    assert made is not None
    random = np.random.default_rng(0)
    for name in [one.placed.array.name for one in case.verdict(made.arrays).judged if one.is_wrong]:
        made.arrays[name] *= 1 + 0.02 * random.normal(size=made.arrays[name].shape).astype(np.float32)
    answer = case.verdict(made.arrays)
    assert answer.cause is not None
    assert answer.cause.mistakes == ()
    (mistake,) = answer.cause.nearest[0].mistakes
    assert (mistake.name, round(answer.cause.nearest[0].error, 2)) == ("rotary-base", 0.02)


def test_an_array_that_was_dumped_wrongly_and_used_rightly_is_wrong_alone() -> None:
    case = PortCase("llama", (), "float32", 1)
    made = case.dump()
    assert made is not None
    made.arrays["1.mlp"] = made.arrays["1.mlp"] * 1.5
    answer = case.verdict(made.arrays)
    assert [one.placed.array.name for one in answer.judged if one.is_wrong] == ["1.mlp"]
