"""Every variant of `attn compute` against torch or a transformers layer with the same weights."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import DeepseekV3Config, LlamaConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from attn_cli.kernel.definition.bias import alibi_slopes
from tests.cli.test_compute import CLOSE, RANDOM, compute, tensor
from tests.program import attn, refused

pytestmark = pytest.mark.usefixtures("here")


def qkv(h: int = 4, g: int = 4, n: int = 5, m: int = 5, d: int = 4, e: int = 3) -> dict[str, np.ndarray]:
    shapes = {"q": (h, n, d), "k": (g, m, d), "v": (g, m, e)}
    return {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}


def sdpa(arrays: dict[str, np.ndarray], mask: np.ndarray | None = None, scale: float | None = None) -> np.ndarray:
    q, k, v = (tensor(arrays[name]) for name in "qkv")
    given = None if mask is None else tensor(mask)
    return scaled_dot_product_attention(
        q, k, v, attn_mask=given, scale=scale, enable_gqa=q.ndim > 2 and q.shape[-3] != k.shape[-3]
    ).numpy()


def test_raw_dot_products_mix_without_softmax_and_scale() -> None:
    # x' = sum of (x . x_i) x_i, which is x xᵀ x
    x = RANDOM.normal(size=(4, 3))
    found = compute("--weights", "scores", "--scale", "off", x=x)
    np.testing.assert_allclose(found["weights"], x @ x.T, **CLOSE)
    np.testing.assert_allclose(found["output"], x @ x.T @ x, **CLOSE)


def test_padding_is_per_batch_entry() -> None:
    q = RANDOM.normal(size=(3, 2, 4, 5))
    lengths = [2, 4, 1]
    found = compute("--mask", "lengths:2,4,1", "--mask", "causal", q=q)
    cells = (np.arange(4) < np.array(lengths)[:, None, None, None]) & np.tril(np.ones((4, 4), dtype=bool))
    np.testing.assert_allclose(found["output"], sdpa({"q": q, "k": q, "v": q}, cells), **CLOSE)


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


def test_sines_are_added_to_words() -> None:
    run = attn("compute", "the the", "-m", "toy:the-cat-sat", "--positions", "sinusoidal", "--json")
    # position 1, width 4: sin 1 = .8415, cos 1 = .5403, sin .01 = .0100, cos .01 = 1.0000 (rounded)
    first, second = run.json["matrices"]["q"]
    np.testing.assert_allclose(first, [0.2, 0.7 + 1, 0.1, 0.4 + 1])
    np.testing.assert_allclose(second, [0.2 + 0.84147, 0.7 + 0.54030, 0.1 + 0.01, 0.4 + 0.99995], atol=1e-5)
    assert run.json["input"]["text"] == "the the"
    assert [token["text"] for token in run.json["input"]["tokens"]] == ["the", "the"]


def test_words_equal_the_table_as_a_source() -> None:
    computed = attn("compute", "he sat on the river bank", "--heads", "4", "--json").json["matrices"]
    shown = attn("matrix", "he sat on the river bank", "--json").json["tables"]["matrices"][0]
    np.testing.assert_array_equal(computed["weights"], shown["weights"])
    np.testing.assert_array_equal(computed["scaled"], shown["scores"])


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


@pytest.mark.parametrize(
    ("shapes", "options", "words"),
    [
        ({"wdkv": (4, 2), "wuk": (2, 4)}, [], "latent keys need wuv"),
        ({"wdkv": (4, 2), "wuk": (3, 4), "wuv": (2, 4)}, [], "wuk has shape (3, 4) but wdkv has shape (4, 2)"),
        ({"wdkv": (4, 2), "wuk": (2, 3), "wuv": (2, 3)}, [], "q is 4 wide but 1 heads of the keys are 3"),
        ({"wdkv": (4, 2), "wuk": (2, 4), "wuv": (2, 4)}, ["--positions", "rotary"], "add wkr"),
        ({"wdkv": (4, 2), "wuk": (2, 4), "wuv": (2, 4)}, ["--kv-heads", "1"], "latent keys and wk, wv"),
    ],
)  # fmt: skip
def test_latent_matrices_that_do_not_fit_are_named(
    shapes: dict[str, tuple[int, ...]], options: list[str], words: str
) -> None:
    np.save("x.npy", np.ones((2, 4)))
    np.savez("latent.npz", **{name: np.ones(shape) for name, shape in shapes.items()})
    refused(attn("compute", "--x", "x.npy", "--projections", "latent.npz", *options), 2, words)


def test_given_weights_are_taken_as_they_are() -> None:
    arrays, weights = qkv(h=1, g=1), RANDOM.normal(size=(5, 5))
    found = compute("--mask", "causal", weights=weights, **arrays)
    np.testing.assert_array_equal(found["weights"][0], np.tril(weights))
    np.testing.assert_allclose(found["output"][0], np.tril(weights) @ arrays["v"][0], **CLOSE)


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
