"""`attn compute --expect` against kernels as others write them: planted mistakes are named, no innocent is blamed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes.problem import Problem
from attn_cli.kernel.lessons.mistakes.register import mistakes
from attn_cli.summaries.answers.check_cause import places
from tests.cli import kernels
from tests.cli.kernels import CAUSAL, INNOCENT, PLANTED, Arrays, Kernel
from tests.program import attn

SIZES = ({"h": 4, "n": 48, "d": 16}, {"h": 4, "n": 80, "d": 32, "g": 2}, {"h": 4, "n": 130, "d": 8})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def verdict(a: Arrays, output: np.ndarray, options: tuple[str, ...], dtype: type = np.float64) -> dict[str, Any]:
    """What is said of an output; all arrays are saved as numbers of that type."""
    for name, x in a.items():
        np.save(f"{name}.npy", x.astype(dtype))
    np.save("mine.npy", output.astype(dtype))
    files = (word for name in "qkv" for word in (f"--{name}", f"{name}.npy"))
    run = attn("compute", *files, *options, "-q", "--expect", "mine.npy", "--json")
    check: dict[str, Any] = run.json["tables"]["verdicts"][0]
    assert run.code == (0 if check["right"] else 1)
    return check


Case = tuple[Arrays, np.ndarray, type]


def case(kernel: Kernel, seed: int, size: int, precision: Any) -> Case:
    """Arrays of a size and precision, what the kernel makes of them, and the type in which both are saved."""
    low = precision if isinstance(precision, torch.dtype) else None
    dtype = np.float32 if low else precision
    a = {name: x.astype(dtype).astype(np.float64) for name, x in kernels.arrays(seed, **SIZES[size]).items()}
    a = {name: kernels.half(x, low) for name, x in a.items()} if low else a
    output = kernel(a)
    return a, kernels.half(output, low) if low else output, dtype


TYPES, LOW = (np.float64, np.float32), (torch.bfloat16, torch.float16)
NAMED = [(name, each) for name in PLANTED for each in TYPES] + [(name, each) for name in PLANTED for each in LOW]
JUDGED = [(name, each) for name in INNOCENT for each in TYPES]


def assert_is_named(name: str, precision: Any, seed: int, size: int) -> None:
    kernel, options, words = PLANTED[name]
    a, output, dtype = case(kernel, seed, size, precision)
    found = verdict(a, output, options, dtype)
    assert words in (found["cause"] or ""), found
    if precision in TYPES:
        assert not found["right"]
        assert found["rounding"] is None


def assert_is_innocent(name: str, precision: Any, seed: int, size: int) -> None:
    """Right, or right for a lower precision: no cause is named, nothing is said to be out of place."""
    a, output, dtype = case(INNOCENT[name], seed, size, precision)
    found = verdict(a, output, CAUSAL, dtype)
    assert found["cause"] is None, found
    assert found["picture"] is None, found
    assert found["right"] or found["rounding"] in ("float32", "float16", "bfloat16"), found


@pytest.mark.parametrize(("name", "precision"), NAMED)
def test_a_planted_mistake_is_named(name: str, precision: Any) -> None:
    """Every mistake in every precision that shows it, sizes and seeds in turn; all of them in the test below."""
    at = NAMED.index((name, precision))
    assert_is_named(name, precision, at % 2, at % len(SIZES))


@pytest.mark.parametrize(("name", "precision"), JUDGED)
def test_an_innocent_kernel_is_never_called_wrong(name: str, precision: Any) -> None:
    at = JUDGED.index((name, precision))
    assert_is_innocent(name, precision, at % 2, at // 2 % len(SIZES))


@pytest.mark.every_size
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("seed", range(2))
def test_mistakes_and_innocents_of_every_size(seed: int, size: int) -> None:
    for name, precision in NAMED:
        assert_is_named(name, precision, seed, size)
    for name, precision in JUDGED:
        assert_is_innocent(name, precision, seed, size)


@pytest.mark.parametrize("g", [8, 2])
@pytest.mark.parametrize("mask", [(), CAUSAL])
def test_rows_before_heads_in_all_arrays_are_recognised(mask: tuple[str, ...], g: int) -> None:
    """FlashAttention's layout, [batch, n, heads, d]."""
    a = kernels.arrays(1, h=8, n=64, d=32, g=g)
    output = kernels.plain(a, mask=None if mask else np.ones((1, 1), dtype=bool))
    found = verdict({name: x.swapaxes(0, 1)[None] for name, x in a.items()}, output.swapaxes(0, 1)[None], mask)
    assert "read as 8 heads of 64, the output is right" in found["cause"]


def spoilt(change: Callable[[np.ndarray], None]) -> Kernel:
    def kernel(a: Arrays) -> np.ndarray:
        output = kernels.plain(a)
        change(output)
        return output

    return kernel


def noise(part: np.ndarray) -> None:
    part += np.random.default_rng(0).normal(size=part.shape)


@pytest.mark.parametrize(
    ("change", "picture"),
    [
        (lambda out: noise(out[:, 16:]), "rows 0-15 of every head are right, from row 16 on they are wrong"),
        (lambda out: noise(out[:, :1]), "row 0 of every head is wrong"),
        (lambda out: noise(out[:, :20]), "rows 0-19 of every head are wrong"),
        (lambda out: noise(out[2]), "every row of head 2 is wrong"),
        (lambda out: noise(out[1:3, 5]), "row 5 of heads 1-2 is wrong"),
        (lambda out: noise(out[..., 12:]), "every row of every head is wrong, in columns 12-15 alone"),
    ],
)  # fmt: skip
def test_what_is_in_no_register_is_described_and_not_explained(change: Callable, picture: str) -> None:
    a = kernels.arrays(3)
    found = verdict(a, spoilt(change)(a), CAUSAL)
    assert found["cause"] is None
    assert found["rounding"] is None
    assert picture in found["picture"]


def test_the_verdict_is_a_sentence_before_the_numbers() -> None:
    a = kernels.arrays(3)
    first_lines = {}
    unknown = spoilt(lambda out: noise(out[:, 16:]))(a)
    outputs = {"right": kernels.plain(a), "coarse": kernels.half(kernels.plain(a)) + 1e-12,
               "wrong": kernels.plain(a, 1.0), "unknown": unknown}  # fmt: skip
    for name, output in outputs.items():
        verdict(a, output, CAUSAL)
        files = (word for each in "qkv" for word in (f"--{each}", f"{each}.npy"))
        first_lines[name] = attn("compute", *files, *CAUSAL, "--expect", "mine.npy").text.split("\n\n")[1]
    assert first_lines["right"].startswith("right: output within 1e-10 of the definition\n")
    assert first_lines["coarse"].startswith("not right for float64, but within the rounding of float16 (--tol 0.005")
    assert first_lines["wrong"].startswith(
        "wrong, likely because the scale is missing: q kᵀ was not multiplied by 0.25\n"
    )
    assert first_lines["unknown"].startswith("wrong, cause unknown: rows 0-15 of every head are right, from row 16 on")


def test_every_mistake_of_the_register_has_one_sentence_and_changes_something() -> None:
    q, k, v = kernels.arrays(0, h=4, n=24, d=4, g=2).values()
    problem = Problem(q, k, v, Rule(0.5, mask=causal(), softcap=3.0), 16, None, np.ones(24, bool))
    found = list(mistakes(problem))
    assert len({words for words, _ in found}) == len(found)
    for words, make in found:
        assert not np.allclose(make().output, problem.right.output, 0, 1e-12) or "rescaled" in words


def test_places_of_no_order_are_counted() -> None:
    bad = np.zeros((2, 10, 1), dtype=bool)
    bad[0, ::3] = bad[1, 1::5] = True
    assert places(bad) == "30% of the rows of every head are wrong, not the same in each"
    bad = np.zeros((1, 10, 1), dtype=bool)
    bad[0, [1, 4, 5]] = True
    assert places(bad) == "rows 1, 4-5 are wrong"
