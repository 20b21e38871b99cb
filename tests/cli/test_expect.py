"""`attn compute --expect`: right kernels pass, in every layout and type; rounding, NaN and nonsense are told apart."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import scaled_dot_product_attention

from tests.program import Run, attn, file_words, refused
from tests.views.test_golden import DEPTHS, GoldenScreen
from tests.views.test_schemas import validator

RANDOM = np.random.default_rng(5)


pytestmark = pytest.mark.usefixtures("here")


def save(**arrays: np.ndarray) -> list[str]:
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    return ["compute", *file_words(arrays)]


def check(command: list[str], output: np.ndarray, *options: str) -> Run:
    np.save("mine.npy", output)
    return attn(*command, "--expect", "mine.npy", *options)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return torch.softmax(torch.from_numpy(x), axis).numpy()


def case(h: int = 4, g: int = 2, n: int = 5, m: int = 7, d: int = 4, e: int = 3) -> dict[str, np.ndarray]:
    shapes = {"q": (h, n, d), "k": (g, m, d), "v": (g, m, e)}
    return {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}


def attention(arrays: dict[str, np.ndarray], mask: np.ndarray | None = None, scale: float = 0.5) -> np.ndarray:
    q, k, v = (torch.from_numpy(arrays[name]) for name in "qkv")
    allowed = None if mask is None else torch.from_numpy(mask)
    return scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale, enable_gqa=len(q) != len(k)).numpy()


CAUSAL = np.tril(np.ones((5, 7), dtype=bool))


def test_nan_is_explained() -> None:
    a = case(g=4)
    mask = CAUSAL.copy()
    mask[3] = False
    with_nan = attention(a, mask)
    with_nan[:, 3] = np.nan
    run = check([*save(**a, mask=mask), "-q"], with_nan)
    assert run.code == 1
    assert "fully masked" in run.text
    assert "4 rows with NaN or Inf" in run.text

    a["q"][:, 1] *= 1e6
    overflown = attention(a)
    overflown[:, 1] = np.nan
    assert "overflows float16: it reaches" in check(save(**a), overflown.astype(np.float32)).text

    big = case(g=4)
    big["q"][2, 4], big["k"][2, 0] = [40, 0, 0, 0], [10, 0, 0, 0]  # their score is 400 / 2
    run = check(save(**big), with_row_nan(attention(big), 2, 4))
    assert "overflows float32" in run.text


def with_row_nan(output: np.ndarray, head: int, row: int) -> np.ndarray:
    output[head, row] = np.nan
    return output


def test_rounding_is_told_from_mistakes_and_nonsense_from_both() -> None:
    a = case(g=4)
    command = save(**a)
    rounded = attention(a).astype(np.float32).astype(np.float64)
    run = check(command, rounded)
    assert run.code == 1
    assert "not right for float64, but within the rounding of float32" in run.text
    assert "--tol 2e-05 takes them" in " ".join(run.text.split())
    assert check(command, rounded, "--tol", "2e-5").code == 0
    nonsense = check(command, RANDOM.normal(size=rounded.shape)).text
    assert "none of the usual mistakes" in " ".join(nonsense.split())


def test_numbers_by_hand_are_judged_to_their_decimals() -> None:
    decimals = 2
    a = case(g=4)
    command = [*save(**a), "-q"]
    right = np.round(attention(a), decimals)
    run = check(command, right)
    assert run.code == 0
    assert f"right: output to the {decimals} decimals given" in run.text
    right[0, 0, 0] += 10.0**-decimals
    run = check(command, right)
    assert run.code == 1
    assert "1 of 60 numbers is off" in run.text
    assert check(command, right, "--tol", "0.5").code == 0
    assert "the scale is missing" in check(command, np.round(attention(a, scale=1.0), decimals)).text


def test_the_errors_are_those_of_numpy() -> None:
    a = case(g=4)
    right = attention(a)
    wrong = right.copy()
    wrong[1, 2, 1] += 0.5
    wrong[1, 4, 0] -= 0.25
    heads = check(save(**a), wrong, "--json").json["tables"]["heads"]
    assert [head["bad"] for head in heads] == [0, 2, 0, 0]
    assert (heads[1]["first_bad_row"], heads[1]["first_bad_column"]) == (2, 1)
    assert heads[1]["worst_absolute_error"] == pytest.approx(0.5)
    weights = softmax(a["q"][1] @ a["k"][1].T / 2)
    size = np.maximum(np.sqrt(((weights[:, :, None] * a["v"][1]) ** 2).sum(axis=1)), abs(right[1]))
    relative = max(0.5 / size[2, 1], 0.25 / size[4, 0])
    assert heads[1]["bad_rows"] == 2
    assert heads[1]["worst_relative_error"] == pytest.approx(relative)
    assert heads[1]["found"] == pytest.approx(wrong[1, 2, 1])
    assert heads[1]["expected"] == pytest.approx(right[1, 2, 1])


SHAPES = {"q": (4, 96, 64), "k": (2, 96, 64), "v": (2, 96, 64)}
BFLOAT16, FLOAT16 = torch.bfloat16, torch.float16


def low(dtype: torch.dtype, spread: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    arrays = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    return {name: (x * (spread if name != "v" else 1)).to(dtype) for name, x in arrays.items()}


def step_by_step(a: dict[str, torch.Tensor]) -> torch.Tensor:
    """Attention as models write it out: every product rounded to the dtype of the arrays."""
    k, v = (a[x].repeat_interleave(2, 0) for x in "kv")
    scores = a["q"] @ k.mT * 0.125
    scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=bool).tril(), -torch.inf)
    return torch.softmax(scores.float(), -1).to(scores.dtype) @ v


def low_check(a: dict[str, torch.Tensor], output: torch.Tensor, *options: str, widened: bool = False) -> Run:
    save_file({name: x.contiguous() for name, x in a.items()}, "a.safetensors")
    files = [word for name in "qkv" for word in (f"--{name}", f"a.safetensors:{name}")]
    if widened:
        np.save("mine.npy", output.float().numpy())
    else:
        save_file({"output": output.contiguous()}, "mine.safetensors")
    mine = "mine.npy" if widened else "mine.safetensors"
    return attn("compute", *files, "--mask", "causal", "-q", "--expect", mine, *options)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("spread", [1, 6])  # with 6, scores reach 200
def test_right_kernels_of_16_bits_pass_however_they_are_saved(dtype: torch.dtype, spread: float) -> None:
    a = low(dtype, spread)
    fused = scaled_dot_product_attention(*(a[x][None] for x in "qkv"), is_causal=True, enable_gqa=True)[0]
    for output in (fused, step_by_step(a)):
        for widened in (False, True):
            run = low_check(a, output, widened=widened)
            assert run.code == 0, run.text
            assert f"checked as {str(dtype).removeprefix('torch.')}" in run.text


@pytest.mark.parametrize("wrong", ["zero", "of another head", "of the row before"])
def test_one_wrong_row_of_16_bits_is_found(wrong: str) -> None:
    a = low(BFLOAT16)
    output = step_by_step(a)
    output[2, 77] = {"zero": 0, "of another head": output[1, 77], "of the row before": output[2, 76]}[wrong]
    run = low_check(a, output, "--json")
    heads = run.json["tables"]["heads"]
    assert run.code == 1
    assert [head["bad_rows"] for head in heads] == [0, 0, 1, 0]
    assert heads[2]["first_bad_row"] == 77


def test_weights_may_be_checked_too_or_alone() -> None:
    a = case(g=4)
    weights = softmax(a["q"] @ a["k"].swapaxes(-1, -2) / 2)
    command = save(**a)
    np.save("w.npy", weights)
    assert check(command, attention(a), "--expect", "weights=w.npy").code == 0
    assert attn(*command, "--expect", "weights=w.npy").code == 0
    np.save("w.npy", softmax(a["q"] @ a["k"].swapaxes(-1, -2)))
    run = attn(*command, "--expect", "weights=w.npy")
    assert run.code == 1
    assert "the scale is missing" in run.text
    assert check(command, attention(a), "--expect", "weights=w.npy").code == 1


def test_other_layouts_of_the_same_numbers_are_recognised() -> None:
    a = case(g=4)
    right = attention(a)
    command = save(**a)
    assert "rows before heads" in check(command, right.swapaxes(0, 1)).errors
    assert "concatenated heads" in check(command, right.swapaxes(0, 1).reshape(5, 12)).errors
    for layout in (right[None], right.swapaxes(0, 1), right.swapaxes(0, 1).reshape(5, 12)):
        assert check(command, layout, "-q").code == 0
    refused(check(command, right.swapaxes(1, 2)), 2, "shape (4, 3, 5) but the definition gives (4, 5, 3)", "transposed")
    refused(check(command, right[:2]), 2, "shape (2, 5, 3)")


def test_every_batch_entry_has_its_verdict() -> None:
    q = RANDOM.normal(size=(3, 2, 4, 5))
    right = scaled_dot_product_attention(*[torch.from_numpy(q)] * 3).numpy()
    right[1, 0, 0, 0] += 1
    run = check(save(q=q), right, "--json")
    assert run.code == 1
    assert [entry["right"] for entry in run.json["tables"]["verdicts"]] == [True, False, True]
    validator("check").validate(run.json)


@pytest.mark.parametrize("name", ["passes", "fails"])
def test_screens(name: str, golden_screen: GoldenScreen) -> None:
    q = np.array([[[1, 0], [0, 1], [1, 1]], [[0, 1], [1, 0], [2, 1]]], dtype=float)
    k, v = q[:, ::-1].copy(), np.array([[[1, 2], [3, 4], [5, 6]]] * 2, dtype=float)
    allowed = np.tril(np.ones((3, 3), dtype=bool)) if name == "passes" else None
    output = attention({"q": q, "k": k, "v": v}, allowed, 2**-0.5)
    np.save("mine.npy", output.astype(np.float32))
    arguments = (*save(q=q, k=k, v=v), "--mask", "causal", "--expect", "mine.npy", "--tol", "1e-6")

    def draw(width: int) -> str:
        run = attn(*arguments, terminal=True, env={"COLUMNS": str(width)} | DEPTHS["none"])
        assert run.code == (1 if name == "fails" else 0)
        return run.text

    golden_screen(f"expect-{name}", draw)


def test_no_cause_is_named_that_is_further_away_than_what_is_right() -> None:
    """A kernel in bfloat16 that takes its key heads in the reversed order, which is none of the usual mistakes."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(h, 128, 64, generator=random).to(BFLOAT16) for h in (8, 2, 2))
    wrong = scaled_dot_product_attention(q[None], k.flip(0)[None], v.flip(0)[None], is_causal=True, enable_gqa=True)
    save_file({"q": q, "k": k, "v": v, "out": wrong[0].contiguous()}, "mine.safetensors")
    given = [word for name in "qkv" for word in (f"--{name}", f"mine.safetensors:{name}")]
    run = attn("compute", *given, "--mask", "causal", "--expect", "mine.safetensors:out", "--json")
    assert run.code == 1
    assert [each["cause"] for each in run.json["tables"]["verdicts"]] == [None]
