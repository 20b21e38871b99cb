"""A sample of `python -m tests.bisect`: mistakes in tiny types are placed and named, right models are equal."""

import pytest

from tests.bisect.__main__ import Case, is_named


@pytest.mark.parametrize(
    ("name", "plant", "precision"),
    [
        ("qwen3", "qk norm", "float32"),
        ("gemma2", "softcap", "float32"),
        ("mistral", "scale twice", "bfloat16"),
        ("opt", "positions", "float32"),
        ("starcoder2", "biases of qkv", "float32"),
    ],
)
def test_a_mistake_is_placed_and_named(name: str, plant: str, precision: str) -> None:
    case = Case(name, (plant,), precision, 1)
    made = case.dump()
    assert made is not None
    arrays, first = made
    answer = case.verdict(arrays)
    assert answer.first is not None
    assert answer.first.placed.array.name == first
    assert is_named(answer, (plant,))


@pytest.mark.parametrize(("name", "precision"), [("qwen2", "bfloat16"), ("gpt_neox", "float32"), ("llama", "4-bit")])
def test_what_precision_explains_is_equal(name: str, precision: str) -> None:
    case = Case(name, (), precision, 2)
    made = case.dump()
    assert made is not None
    assert case.verdict(made[0]).is_equal
