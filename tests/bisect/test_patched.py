"""A sample of `python -m tests.bisect`: mistakes in tiny types are placed and named, right models are equal."""

import pytest

from tests.bisect.cases import TinyCase, is_named, is_placed


@pytest.mark.parametrize(
    ("name", "plant", "precision"),
    [
        ("qwen3", "qk norm", "float32"),
        ("gemma2", "softcap", "float32"),
        ("mistral", "scale twice", "bfloat16"),
        ("opt", "positions", "float32"),
        ("starcoder2", "biases of qkv", "float32"),
        ("gptj", "mask missing", "float32"),
        ("bloom", "final norm", "float32"),
        ("xglm", "scale twice", "float32"),
        ("falcon", "rotary base", "float32"),
        ("hunyuan_v1_dense", "rotary backwards", "float32"),
        ("opt", "scale missing", "float32"),
        ("gpt_oss", "rotary missing", "float32"),
        ("mistral", "diagonal", "float32"),
        ("biogpt", "gains plus one", "float32"),
        ("dots1", "gate and up", "float32"),
        ("minimax", "k and v", "float32"),
    ],
)
def test_a_mistake_is_placed_and_named(name: str, plant: str, precision: str) -> None:
    case = TinyCase(name, (plant,), precision, 1)
    made = case.dump()
    assert made is not None
    answer = case.verdict(made.arrays)
    assert is_placed(answer, made)
    assert is_named(answer, case.names())


@pytest.mark.parametrize(("name", "precision"), [("qwen2", "bfloat16"), ("gpt_neox", "float32"), ("llama", "4-bit")])
def test_what_precision_explains_is_equal(name: str, precision: str) -> None:
    case = TinyCase(name, (), precision, 2)
    made = case.dump()
    assert made is not None
    assert case.verdict(made.arrays).is_equal
