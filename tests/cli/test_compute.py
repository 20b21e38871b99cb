"""`attn compute` against torch's own attention in float64 and layers of transformers, read back from its files."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch.nn.functional import scaled_dot_product_attention
from transformers import DeepseekV3Config, LlamaConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from attn_cli.kernel.definition.bias import alibi_slopes
from tests.program import attn, file_words, process, refused
from tests.views.test_schemas import hold

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


@pytest.mark.parametrize(("mask", "scale"), [("none", None), ("causal", 0.3), ("bool", None), ("additive", 0.3),
                                             ("lowest", None)])  # fmt: skip
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((5, 4), (7, 4), (7, 3)),
        ((2, 5, 4), (2, 7, 4), (2, 7, 3)),
        ((3, 1, 5, 4), (3, 1, 5, 4), (3, 1, 5, 4)),
        ((2, 3, 2, 5, 4), (2, 3, 2, 5, 4), (2, 3, 2, 5, 1)),
        ((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3)),
    ],
    ids=["2-d", "heads", "one head", "two batches", "grouped"],
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


@pytest.mark.parametrize(
    ("shape", "options"), [((4, 3), []), ((2, 4, 3), []), ((2, 1, 4, 3), []), ((4, 6), ["--heads", "2"])]
)
def test_json_npz_npy_and_csv_hold_the_same_numbers(shape: tuple[int, ...], options: list[str]) -> None:
    options = [*options, "--mask", "causal"]
    found = compute(*options, q=RANDOM.normal(size=shape))
    run = attn("compute", "--q", "q.npy", *options, "--json")
    hold(run, "compute")
    shown = run.json
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


def qkv(h: int = 4, g: int = 4, n: int = 5, m: int = 5, d: int = 4, e: int = 3) -> dict[str, np.ndarray]:
    shapes = {"q": (h, n, d), "k": (g, m, d), "v": (g, m, e)}
    return {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}


def sdpa(arrays: dict[str, np.ndarray], mask: np.ndarray | None = None, scale: float | None = None) -> np.ndarray:
    q, k, v = (tensor(arrays[name]) for name in "qkv")
    given = None if mask is None else tensor(mask)
    return scaled_dot_product_attention(
        q, k, v, attn_mask=given, scale=scale, enable_gqa=q.ndim > 2 and q.shape[-3] != k.shape[-3]
    ).numpy()


def test_a_file_may_be_said_to_be_additive_or_boolean_and_masks_combine() -> None:
    arrays = qkv()
    ones = np.tril(np.ones((5, 5)))
    np.save("ones.npy", ones)
    np.save("bias.npy", bias := RANDOM.normal(size=(4, 5, 5)))
    added = compute("--mask", "additive:ones.npy", **arrays)
    np.testing.assert_allclose(added["output"], sdpa(arrays, np.broadcast_to(ones, (4, 5, 5))), **CLOSE)
    masked = np.where(ones > 0, bias, -np.inf)
    both = compute("--mask", "bool:ones.npy", "--mask", "bias.npy", "-q", **arrays)
    np.testing.assert_allclose(both["output"], sdpa(arrays, masked), **CLOSE)
    biased = compute("--mask", "causal", "--mask", "additive:bias.npy", **arrays)
    np.testing.assert_allclose(biased["output"], sdpa(arrays, masked), **CLOSE)
    said = attn("compute", "--q", "q.npy", "--mask", "bool:bias.npy")
    assert said.code == 2
    assert "other numbers than 0 and 1" in said.errors


def test_the_slopes_are_those_of_bloom() -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    for heads in (1, 2, 6, 8, 12):
        alibi = build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)
        np.testing.assert_allclose(alibi_slopes(heads), alibi[:, 0, 1].numpy(), rtol=1e-6)  # slopes times distance 1


def test_cross_attention_with_all_sizes_different_equals_torchs_module() -> None:
    module = torch.nn.MultiheadAttention(8, 4, bias=False, kdim=6, vdim=6, batch_first=True, dtype=torch.float64)
    x, context = RANDOM.normal(size=(3, 8)), RANDOM.normal(size=(7, 6))
    ws = {
        "wq": module.q_proj_weight, "wk": module.k_proj_weight, "wv": module.v_proj_weight,
        "wo": module.out_proj.weight,
    }  # fmt: skip
    found = compute("--heads", "4", x=x, context=context, **{name: w.T.detach().numpy() for name, w in ws.items()})
    output, weights = module(*(tensor(a)[None] for a in (x, context, context)), average_attn_weights=False)
    np.testing.assert_allclose(found["output"], output[0].detach().numpy(), **CLOSE)
    np.testing.assert_allclose(found["weights"], weights[0].detach().numpy(), **CLOSE)


def transposed(linear: torch.nn.Linear) -> np.ndarray:
    return linear.weight.T.detach().double().numpy()


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_grouped_keys_with_rotary_positions_equal_a_llama_layer(groups: int) -> None:
    config = LlamaConfig(hidden_size=32, num_attention_heads=4, num_key_value_heads=groups, num_hidden_layers=1)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    layer = LlamaAttention(config, layer_idx=0).double().eval()
    x = RANDOM.normal(size=(2, 6, 32))
    rotary = LlamaRotaryEmbedding(config)(tensor(x), torch.arange(6)[None])
    causal = torch.full((6, 6), -torch.inf, dtype=torch.float64).triu(1)
    with torch.no_grad():
        output, weights = layer(tensor(x), position_embeddings=rotary, attention_mask=causal[None, None])
    projections = {"wq": layer.q_proj, "wk": layer.k_proj, "wv": layer.v_proj, "wo": layer.o_proj}
    found = compute(
        "--heads", "4", "--kv-heads", str(groups), "--positions", "rotary", "--mask", "causal",
        x=x, **{name: transposed(linear) for name, linear in projections.items()},
    )  # fmt: skip
    # transformers takes the cosines in float32, and the softmax too
    np.testing.assert_allclose(found["output"], output.numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["weights"], weights.numpy(), rtol=0, atol=1e-6)
    assert found["k"].shape == (2, groups, 6, 8)


@pytest.mark.parametrize("form", [[], ["--latent", "absorbed"]], ids=["plain", "absorbed"])
def test_latent_keys_equal_a_deepseek_layer(form: list[str]) -> None:
    config = DeepseekV3Config(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=4, num_hidden_layers=1, q_lora_rank=None,
        kv_lora_rank=6, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3, max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    layer = DeepseekV3Attention(config, layer_idx=0).double().eval()
    torch.nn.init.uniform_(layer.kv_a_layernorm.weight, 0.5, 1.5)
    x = RANDOM.normal(size=(6, 32))
    angles = np.arange(6)[:, None] * 10000.0 ** (-np.arange(0, 4, 2) / 4)  # frequencies of the 4 rotary columns
    angles = tensor(np.concatenate((angles, angles), axis=-1))[None]
    causal = torch.full((6, 6), -torch.inf, dtype=torch.float64).triu(1)
    with torch.no_grad():
        output, weights = layer(
            tensor(x)[None], position_embeddings=(angles.cos(), angles.sin()), attention_mask=causal[None, None]
        )
    down, up = transposed(layer.kv_a_proj_with_mqa), transposed(layer.kv_b_proj).reshape(6, 4, 5 + 3)
    np.savez(
        "latent.npz", norm=layer.kv_a_layernorm.weight.detach().numpy()[None], wdkv=down[:, :6], wkr=down[:, 6:],
        wuk=up[..., :5].reshape(6, 20), wuv=up[..., 5:].reshape(6, 12),
    )  # fmt: skip
    found = compute(
        "--heads", "4", "--positions", "rotary-interleaved", "--mask", "causal", "--projections", "latent.npz",
        *form, x=x, wq=transposed(layer.q_proj), wo=transposed(layer.o_proj),
    )  # fmt: skip
    np.testing.assert_allclose(found["weights"], weights[0].numpy(), rtol=0, atol=1e-6)  # a softmax in float32
    np.testing.assert_allclose(found["output"], output[0].numpy(), rtol=0, atol=1e-6)
    assert found["k"].shape == ((1, 6, 10) if form else (4, 6, 9))


def test_drawn_projections_are_the_same_for_the_same_seed_and_not_for_another() -> None:
    x = RANDOM.normal(size=(3, 8))
    one, same, other = (compute("--projections", seed, "--heads", "2", x=x)["output"] for seed in "774")
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    assert "W_Q, W_K, W_V drawn" in attn("compute", "--x", "x.npy", "--projections", "7").errors
    assert "W_V, W_O drawn" in attn("compute", "--x", "x.npy", "--projections", "7", "--heads", "2").errors
    np.save("wk.npy", np.eye(8))
    before, after = (compute("--projections", "7", *more, x=x) for more in ([], ["--projections", "wk=wk.npy"]))
    np.testing.assert_array_equal(before["q"], after["q"])  # every matrix has a stream of its own
    np.testing.assert_array_equal(after["k"], x)


BATCHED = {
    "latent": ["--heads", "4", "--latent", "3", "--positions", "rotary", "--mask", "causal"],
    "absorbed": ["--heads", "4", "--latent", "3:absorbed"],
    "grouped": ["--heads", "4", "--kv-heads", "2", "--positions", "alibi", "--sink", "1,2,3,4", "--softcap", "3"],
    "sinusoidal": ["--heads", "2", "--positions", "sinusoidal", "--mask", "window:2"],
    "fixed": ["--weights", "uniform", "--mask", "prefix:2"],
}


@pytest.mark.parametrize("options", BATCHED.values(), ids=BATCHED)
def test_every_entry_of_a_batch_is_what_it_is_alone(options: list[str]) -> None:
    options = ["--projections", "1", *options]
    x = RANDOM.normal(size=(2, 3, 5, 8))
    together = compute(*options, x=x)
    for at in ((0, 0), (1, 2)):
        alone = compute(*options, x=x[at])
        for name, values in alone.items():
            np.testing.assert_allclose(together[name][at], values, **CLOSE)


@pytest.mark.parametrize("mask", ["none", "causal-bottom-right"])
def test_alibi_takes_off_slope_times_distance(mask: str) -> None:
    arrays = qkv(n=3, m=5)
    offset = 2 if mask == "causal-bottom-right" else 0
    distance = np.abs(np.arange(3)[:, None] + offset - np.arange(5)[None, :])
    slopes = np.array([1 / 4, 1 / 16, 1 / 64, 1 / 256])  # 2^(-8 h / 4)
    bias = -slopes[:, None, None] * distance
    bias = np.where(np.arange(5)[None, :] <= np.arange(3)[:, None] + offset, bias, -np.inf) if offset else bias
    found = compute("--positions", "alibi", "--mask", mask, **arrays)
    np.testing.assert_allclose(found["output"], sdpa(arrays, bias), **CLOSE)
    given = compute("--positions", "alibi:0.25,0.0625,0.015625,0.00390625", "--mask", mask, **arrays)
    np.testing.assert_array_equal(given["output"], found["output"])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("option", "number"),
    [("--softcap", "1e300"), ("--softcap", "1e-50"), ("--scale", "1e300"), ("--scale", "-1e39"), ("--scale", "1e-300"),
     ("--sink", "1e300"), ("--positions", "alibi:1e300"), ("--positions", "alibi:-1e39")],
)  # fmt: skip
def test_a_number_that_the_precision_cannot_hold_is_refused(option: str, number: str, dtype: type) -> None:
    q = np.array([[1, 2], [3, -1]])
    np.save("q.npy", q.astype(dtype))
    words = f"{float(number.removeprefix('alibi:')):g} can't be held by float32, in which these matrices are computed"
    refused(attn("compute", "--q", "q.npy", f"{option}={number}"), 2, words)
    np.save("q.npy", q.astype(np.float64))
    run = attn("compute", "--q", "q.npy", f"{option}={number}")
    assert "can't be held" not in run.errors
    assert "nan" not in run.text


@pytest.mark.parametrize("name", ["sink", "weights"])
def test_an_array_that_the_precision_cannot_hold_is_refused(name: str) -> None:
    np.save("q.npy", np.array([[1, 2], [3, -1]], dtype=np.float32))
    np.save("x.npy", np.array([[1e300]]) if name == "sink" else np.array([[1.0, 2.0], [-1e300, 0.0]]))
    refused(attn("compute", "--q", "q.npy", f"--{name}", "x.npy"), 2, f"{name} ", "1e+300 can't be held by float32")
