"""`attn compute` against torch's own attention in float64, read back from the files it wrote."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch.nn.functional import scaled_dot_product_attention

from tests.program import attn, file_words, process, refused

# Both add the same float64 numbers, at most a dozen of size 1, in another order.
CLOSE = {"rtol": 0, "atol": 1e-12}
RANDOM = np.random.default_rng(7)


pytestmark = pytest.mark.usefixtures("here")


def compute(*options: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    run = attn("compute", *file_words(arrays), *options, "-o", "out.npz", "--force", "--quiet")
    assert (run.code, run.errors) == (0, "")
    with np.load("out.npz", allow_pickle=False) as file:
        return dict(file)


def tensor(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "additive", "lowest"])
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((5, 4), (5, 4), (5, 4)),
        ((5, 4), (7, 4), (7, 3)),
        ((2, 5, 4), (2, 7, 4), (2, 7, 3)),
        ((3, 2, 5, 4), (3, 2, 7, 4), (3, 2, 7, 3)),
        ((3, 1, 5, 4), (3, 1, 5, 4), (3, 1, 5, 4)),
        ((2, 3, 2, 5, 4), (2, 3, 2, 5, 4), (2, 3, 2, 5, 1)),
        ((6, 5, 4), (2, 7, 4), (2, 7, 3)),
        ((2, 6, 5, 4), (2, 1, 7, 4), (2, 1, 7, 3)),
    ],
    ids=["square", "2-d", "heads", "batch", "one head", "two batches", "grouped", "multi-query"],
)
def test_compute_equals_torch(q, k, v, mask: str, scale: float | None) -> None:
    arrays = {"q": RANDOM.normal(size=q), "k": RANDOM.normal(size=k), "v": RANDOM.normal(size=v)}
    n, m = q[-2], k[-2]
    allowed = RANDOM.random((n, m)) < 0.6
    allowed[:, 0] = True  # torch makes a row that may attend to nothing NaN; here it is 0, and tested elsewhere
    given, options = None, ["--mask", mask] if mask in ("none", "causal") else []
    if mask == "causal":
        given = np.tril(np.ones((n, m), dtype=bool))
    elif mask == "bool":
        arrays["mask"] = given = allowed
    elif mask in ("additive", "lowest"):
        masked = -np.inf if mask == "additive" else np.finfo(np.float64).min
        arrays["mask"] = given = np.where(allowed, RANDOM.normal(size=(n, m)), masked)
    options += [] if scale is None else ["--scale", str(scale)]
    found = compute(*options, **arrays)

    expected = scaled_dot_product_attention(
        *(tensor(arrays[name]) for name in "qkv"),
        attn_mask=None if given is None else tensor(given),
        scale=scale,
        enable_gqa=len(q) > 2 and q[-3] != k[-3],
    ).numpy()
    assert found["output"].dtype == np.float64
    assert found["output"].shape == expected.shape
    np.testing.assert_allclose(found["output"], expected, **CLOSE)
    assert found["weights"].shape == found["scores"].shape == (*q[:-1], m)
    if given is not None:
        masked = ~(given if given.dtype == bool else given > -1e300)
        assert (found["weights"][..., masked] == 0).all()
        assert np.isneginf(found["scaled"][..., masked]).all()


@pytest.mark.parametrize("shape", [(6,), (1, 6), (4, 1), (2, 1, 1, 6), (1, 1, 1, 6), (1, 3, 1, 6), (3, 4, 1)])
def test_a_mask_or_bias_is_broadcast_as_torch_does(shape: tuple[int, ...]) -> None:
    q, k = RANDOM.normal(size=(2, 3, 4, 5)), RANDOM.normal(size=(2, 3, 6, 5))
    added, allowed = RANDOM.normal(size=shape), RANDOM.random(shape) < 0.7
    allowed[..., 0] = True
    for option, given in ({"mask": allowed}, allowed), ({"mask": added}, added):
        rows = tensor(np.atleast_2d(given))  # torch takes no single axis
        right = scaled_dot_product_attention(tensor(q), tensor(k), tensor(k), attn_mask=rows).numpy()
        np.testing.assert_allclose(compute(q=q, k=k, **option)["output"], right, **CLOSE)


def test_a_row_per_batch_entry_is_a_mask_of_its_keys() -> None:
    q, mask = RANDOM.normal(size=(2, 3, 6, 5)), np.array([[1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 1, 1]], bool)
    right = scaled_dot_product_attention(*[tensor(q)] * 3, attn_mask=tensor(mask[:, None, None])).numpy()
    np.testing.assert_allclose(compute(q=q, mask=mask)["output"], right, **CLOSE)
    x = q[:, 0]  # a batch without heads
    right = scaled_dot_product_attention(*[tensor(x)] * 3, attn_mask=tensor(mask[:, None])).numpy()
    np.testing.assert_allclose(compute(q=x, mask=mask)["output"], right, **CLOSE)
    said = attn("compute", "--q", "q.npy", "--mask", "mask.npy").errors
    assert said == "attn: mask.npy: read as 1 = may attend, 0 = blocked\n"
    compute(q=x[:, :2], k=x, mask=mask)
    said = attn("compute", "--q", "q.npy", "--k", "k.npy", "--v", "k.npy", "--mask", "mask.npy").errors
    assert said == "attn: mask.npy: read as 1 = may attend, 0 = blocked, in rows of queries\n"


def test_a_causal_mask_may_end_at_the_last_key() -> None:
    q, k = RANDOM.normal(size=(2, 4)), RANDOM.normal(size=(5, 4))
    weights = compute("--mask", "causal-bottom-right", q=q, k=k)["weights"]
    assert (weights > 0).tolist() == [[True] * 4 + [False], [True] * 5]


def test_a_row_that_may_attend_to_nothing_is_zero() -> None:
    found = compute(q=RANDOM.normal(size=(2, 4)), mask=np.array([[False, False], [True, True]]))
    assert found["weights"][0].tolist() == [0, 0]
    assert found["output"][0].tolist() == [0, 0, 0, 0]
    (shown,) = attn("compute", "--q", "q.npy", "--mask", "mask.npy", "--json").json["tables"]["run"]
    assert (shown["masked_rows"], shown["masked_cells"]) == (1, 2)
    assert "1 row is fully masked" in attn("compute", "--q", "q.npy", "--mask", "mask.npy").text


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_projections_heads_and_the_output_matrix_equal_torchs_module(lead: tuple[int, ...]) -> None:
    width, heads = 8, 4
    module = torch.nn.MultiheadAttention(width, heads, bias=False, batch_first=True, dtype=torch.float64)
    x = RANDOM.normal(size=(*lead, 5, width))
    wq, wk, wv = (part.T.detach().numpy() for part in module.in_proj_weight.chunk(3))
    found = compute("--heads", "4", x=x, wq=wq, wk=wk, wv=wv, wo=module.out_proj.weight.T.detach().numpy())
    flat = tensor(x).reshape(-1, 5, width)
    output, weights = module(flat, flat, flat, average_attn_weights=False)
    np.testing.assert_allclose(found["output"], output.detach().numpy().reshape(x.shape), **CLOSE)
    np.testing.assert_allclose(found["weights"], weights.detach().numpy().reshape(*lead, heads, 5, 5), **CLOSE)
    assert found["q"].shape == found["k"].shape == found["v"].shape == (*lead, heads, 5, 2)
    np.testing.assert_allclose(found["q"].swapaxes(-2, -3).reshape(x.shape), x @ wq, **CLOSE)


def test_axes_before_the_rows_of_x_are_batches_and_not_heads() -> None:
    x = RANDOM.normal(size=(3, 5, 4))
    found = compute(x=x)
    assert found["weights"].shape == (3, 5, 5)
    np.testing.assert_allclose(found["output"], scaled_dot_product_attention(*[tensor(x)] * 3).numpy(), **CLOSE)
    np.testing.assert_array_equal(found["q"], x)


def test_k_is_q_and_v_is_k_if_missing() -> None:
    q, k = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(6, 3))
    np.testing.assert_array_equal(compute(q=q)["output"], compute(q=q, k=q, v=q)["output"])
    np.testing.assert_array_equal(compute(q=q, k=k)["output"], compute(q=q, k=k, v=k)["output"])


@pytest.mark.parametrize(
    ("shape", "options"), [((4, 3), []), ((2, 4, 3), []), ((2, 1, 4, 3), []), ((4, 6), ["--heads", "2"])]
)
def test_json_npz_npy_and_csv_hold_the_same_numbers(shape: tuple[int, ...], options: list[str]) -> None:
    options = [*options, "--mask", "causal"]
    found = compute(*options, q=RANDOM.normal(size=shape))
    shown = attn("compute", "--q", "q.npy", *options, "--json").json
    output = np.load(io.BytesIO(attn("compute", "--q", "q.npy", *options, "-f", "npy").bytes))
    np.testing.assert_array_equal(output, found["output"])
    for name, values in found.items():
        np.testing.assert_array_equal(
            np.array(shown["matrices"][name], dtype=np.float64), np.where(np.isneginf(values), np.nan, values)
        )
    assert shown["tables"]["run"][0]["masked_cells"] == np.isneginf(found["scaled"]).sum()
    rows = attn("compute", "--q", "q.npy", *options, "-f", "csv").lines
    batch = "batch," if len(shape) > 3 else ""
    assert rows[0] == f"{batch}layer,head,query,query_token,key,key_token,score,scaled,weight"
    np.testing.assert_array_equal([float(row.split(",")[-1]) for row in rows[1:]], found["weights"].ravel())


def test_half_precision_is_raised_and_the_result_is_no_wider_than_it_must_be() -> None:
    q = np.full((2, 64), 60.0, dtype=np.float16)  # 60 * 60 * 64 is beyond float16
    found = compute("--scale", "0.125", q=q)
    assert found["weights"].dtype == np.float32
    assert found["weights"].tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_matrix_may_come_through_a_pipe() -> None:
    np.save("q.npy", RANDOM.normal(size=(3, 2)))
    piped = process("compute", "--q", "-", "-o", "piped.npy", input=Path("q.npy").read_bytes())
    assert (piped.code, piped.errors) == (0, "")
    named = attn("compute", "--q", "q.npy", "-f", "npy")
    assert Path("piped.npy").read_bytes() == named.bytes
    assert attn("compute", "--q", "-", "-f", "npy", stdin=b"1,0\n0,1\n").code == 0
    assert attn("compute", "a dog", "a cat", "--context", "-", stdin=b"the cat\n").code == 0  # read once for both


def test_how_a_mask_was_read_is_said() -> None:
    np.save("q.npy", np.ones((2, 2)))
    Path("ones.csv").write_text("1,0\n1,1\n")
    Path("added.csv").write_text("0,-inf\n0.5,0\n")
    assert "read as 1 = may attend" in attn("compute", "--q", "q.npy", "--mask", "ones.csv").errors
    assert "read as additive" in attn("compute", "--q", "q.npy", "--mask", "added.csv").errors
    np.save("k.npy", np.ones((3, 2)))
    assert "causal-bottom-right" in attn("compute", "--q", "q.npy", "--k", "k.npy", "--mask", "causal").errors


@pytest.mark.parametrize("suffix", ["npz", "json", "safetensors"])
def test_a_file_that_holds_keys_and_values_gives_all_three(suffix: str) -> None:
    held = dict(zip(("q", "Keys", "value"), RANDOM.normal(size=(3, 4, 5)), strict=True))
    if suffix == "npz":
        np.savez("all.npz", **held)
    elif suffix == "json":
        Path("all.json").write_text(json.dumps({name: x.tolist() for name, x in held.items()}))
    else:
        save_file(held, "all.safetensors")
    shown = attn("compute", "--q", f"all.{suffix}", "--json").json
    right = scaled_dot_product_attention(*map(tensor, held.values())).numpy()
    np.testing.assert_allclose(shown["matrices"]["output"], right, **CLOSE)
    alone = attn("compute", "--q", f"all.{suffix}:q", "--json").json["matrices"]["output"]
    np.testing.assert_allclose(alone, scaled_dot_product_attention(*[tensor(held["q"])] * 3).numpy(), **CLOSE)


UNIT = [[1, 0], [0, 1]]
TYPED = [("1 0; 0 1", UNIT), ("[[1, 0], [0, 1]]", UNIT), ("[[1. 0.]\n [0. 1.]]", UNIT), ("2 4", [[2, 4]])]
TYPED += [("1,-.5 ;2e1, 3", [[1, -0.5], [20, 3]]), ("[2, 4]", [[2, 4]])]


@pytest.mark.parametrize(("text", "rows"), TYPED)
def test_numbers_may_be_typed(text: str, rows: list[list[float]]) -> None:
    np.save("q.npy", np.array(rows, np.float64))
    typed, saved = (attn("compute", "--q", q, "--json").json["matrices"] for q in (text, "q.npy"))
    assert typed == saved
    scored = attn("compute", "--scores", text, "--scale", "0.5", "--json").json["matrices"]
    expected = np.exp(np.array(rows) / 2)
    np.testing.assert_allclose(scored["weights"], expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    assert "output" not in scored
    values = attn("compute", "--scores", text, "--v", "1 2 3; 4 5 6", "--json").json["matrices"]
    np.testing.assert_allclose(values["output"], np.array(values["weights"]) @ [[1, 2, 3], [4, 5, 6]], rtol=1e-12)


MISTYPED = [("1 0; 0", "q row 2 has 1 cell, row 1 has 2"), ("1 0; 0 x", "q row 2, column 2: 'x' is not a number")]
MISTYPED += [("[[1, 0], 2]", "isn't rows in brackets"), ("1 0; nan 1", "q"), ("1_0 2", "'1_0' is not a number")]


@pytest.mark.parametrize(("text", "words"), MISTYPED)
def test_typed_numbers_that_are_no_matrix_are_refused_by_their_row(text: str, words: str) -> None:
    refused(attn("compute", "--q", text), 2, words)
    refused(attn("compute", "--q", "1 0; 0 1", "--scores", text), 2, "--scores")


def test_weights_of_ones_own() -> None:
    v = np.array([[1.0, 2], [3, 4], [5, 7]])
    np.save("v.npy", v)
    for weights, row in ((".2 .3 .5", [3.6, 5.1]), ("sum", [9, 13]), ("uniform", [3, 13 / 3])):
        shown = attn("compute", "--q", "v.npy", "--weights", weights, "--json").json["matrices"]
        np.testing.assert_allclose(shown["output"], [row] * 3, rtol=1e-12)
        assert "scores" not in shown
