"""Keys explained in models: numbers of two real ones, and what projections put out, turned by hand, of tiny ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.registry import all_named
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.why import ExplainedKeys, Why
from tests.architectures.check import built
from tests.architectures.why import why_verified
from tests.sources.huggingface.models import sentence, tiny
from tests.sources.huggingface.runs import eager_by_stream, encoded

KEEPER = "The keeper lit the lamp at dusk and the captain saw the lamp"


def explained(
    loaded: LoadedModel, text: str, layer: int, head: int, query: int, key: int
) -> tuple[Why, dict[str, Any]]:
    source, parts = ModelSource(loaded), []

    def visit(call: Call) -> None:
        parts.append(reduce(call, ExplainedKeys(1, rows=[query], keys=[key])).part(Why))

    source.each(source.read([text]), Selection((layer,), (head,)), visit, rotations=True)
    (why,) = parts
    assert why is not None
    (cell,) = why.cells
    return why, cell


# layer, head, query, key; weight, content, position, ranks by score, by content and by distance alone; largest pair
KNOWN = [
    (KEEPER, 16, 0, 8, 7, 0.73, -1.18, 9.66, (1, 7, 1), (0, 5.64)),
    (KEEPER, 18, 8, 8, 0, 1.00, 21.32, -0.00, (1, 1, 9), (30, 9.94)),
    (KEEPER, 11, 1, 8, 7, 0.70, 0.00, 4.36, (1, 4, 1), (0, 2.26)),
    (KEEPER, 18, 6, 12, 5, 0.02, 7.42, 0.09, (2, 2, 6), (29, 2.90)),
    ("The capital of France is", 23, 4, 4, 3, 0.9033, 3.22, 0.03, (1, 1, 2), (27, 2.69)),
]


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known[1]}.{known[2]}")
def test_smollms_heads_are_explained(smollm: LoadedModel, known: tuple[Any, ...]) -> None:
    text, layer, head, query, key, weight, content, position, ranks, (pair, contrast) = known
    why, cell = explained(smollm, text, layer, head, query, key)
    assert (why.rotation, why.not_split) == ("halves", None)
    assert cell["weight"] == pytest.approx(weight, abs=0.005)
    assert (cell["content"], cell["position"]) == (pytest.approx(content, abs=0.01), pytest.approx(position, abs=0.01))
    assert (cell["rank"], cell["content_rank"], cell["distance_rank"]) == ranks
    assert int(np.argmax(np.abs(cell["contrasts"]))) == pair
    assert cell["contrasts"][pair] == pytest.approx(contrast, abs=0.01)


def test_minilm_turns_nothing_and_is_explained_column_by_column(minilm: LoadedModel) -> None:
    why, cell = explained(minilm, "he sat on the river bank", 5, 1, 6, 5)
    assert cell["weight"] == pytest.approx(0.028, abs=5e-4)
    assert cell["score"] - cell["mean_score"] == pytest.approx(-0.617, abs=5e-4)
    assert (cell["rank"], cell["visible"], cell["content"], cell["position"]) == (7, 8, None, None)
    assert len(cell["contrasts"]) == 32
    assert why.not_split == "this layer has no rotary positions and no bias"


def cells_of(model: PreTrainedModel, inputs: dict[str, Any]) -> tuple[list[tuple[Call, Why]], Any]:
    """Every call of one pass with all its cells explained, and eager's own weights."""
    calls: list[tuple[Call, Why]] = []

    def visit(call: Call) -> None:
        part = reduce(call, ExplainedKeys(call.m)).part(Why)
        assert part is not None
        calls.append((call, part))

    with torch.no_grad():
        returned = model(**inputs, output_attentions=True)
        with capture(model, visit, rotations=True):
            model(**inputs)
    return calls, returned


OWN = ["llama", "mistral", "gemma2", "gemma3", "gpt_oss", "modernbert", "gpt_neox", "bert"]


@pytest.mark.parametrize("kind", [*OWN, "deepseek_v3", "olmo2", "cohere", "qwen3_next", "t5"])
def test_contrasts_add_up_to_the_logarithm_of_eagers_weights(kind: str) -> None:
    """Grouped keys, windows, a softcap, norms of q and k, learned sinks, a rotation of a part; latent keys, a norm
    after attention, parallel blocks, a hybrid, an encoder-decoder with its biases."""
    if kind in OWN:
        model = tiny(kind)
        inputs = sentence(model)
    else:
        model, inputs = built(kind)
    calls, returned = cells_of(model, inputs)
    eager = eager_by_stream(returned)
    assert len(calls) == sum(map(len, eager.values())) > 0
    for call, why in calls:
        hold_contrasts(why, eager[call.place.stream].pop(0))


def test_contrasts_of_a_real_row_add_up_to_the_logarithm_of_eagers_weights(real: LoadedModel) -> None:
    source, parts, layer = ModelSource(real), list[Why](), 5

    def visit(call: Call) -> None:
        part = reduce(call, ExplainedKeys(call.m, rows=[8])).part(Why)
        assert part is not None
        parts.append(part)

    source.each(source.read([KEEPER]), Selection((layer,)), visit, rotations=True)
    with torch.no_grad(), all_named(real.model, "eager"):
        weights = real.model(**encoded(real, KEEPER), output_attentions=True).attentions[layer]
    hold_contrasts(parts[0], weights[0].double().numpy(), rows=1)


def hold_contrasts(why: Why, eager: np.ndarray, rows: int | None = None) -> None:
    """Contrasts against eager's weights `[h, n, m]` of the rows that are explained, all or so many."""
    logs = np.log(np.maximum(eager, 1e-300))
    explained = {(cell["head"], cell["query"]) for cell in why.cells}
    assert len(explained) == len(eager) * (rows or eager.shape[1])
    for head, query in explained:
        cells = [cell for cell in why.cells if (cell["head"], cell["query"]) == (head, query)]
        assert len(cells) == cells[0]["visible"]
        row = logs[head, query, [cell["key"] for cell in cells]]
        if row.min() < -60:
            continue
        factors = np.array([1.0 if cell["cap_factor"] is None else cell["cap_factor"] for cell in cells])
        sums = np.array([cell["contrasts"].sum() + (cell["bias"] or 0.0) for cell in cells])
        np.testing.assert_allclose(sums * factors, row - row.mean(), atol=1e-4)
        if cells[0]["content"] is not None:
            both = [cell["content"] + cell["position"] for cell in cells]  # type: ignore[operator]
            np.testing.assert_allclose(both, sums, atol=1e-9)


@pytest.mark.parametrize(("kind", "interleaved"), [("llama", False), ("cohere", True)])
def test_content_is_that_of_projections_turned_by_hand(kind: str, interleaved: bool) -> None:
    """Outside the attention call: what q_proj and k_proj put out, and cos and sin of the model's own module."""
    model, inputs = built(kind)
    kept: dict[str, np.ndarray] = {}
    attention = model.model.layers[1].self_attn
    hooks = [
        part.register_forward_hook(lambda _, args, out, name=name: kept.update({name: out[0].double().numpy()}))
        for name, part in (("q", attention.q_proj), ("k", attention.k_proj))
    ]
    hooks.append(
        model.model.rotary_emb.register_forward_hook(
            lambda _, args, out: kept.update(cos=out[0][0].double().numpy(), sin=out[1][0].double().numpy())
        )
    )
    calls, _ = cells_of(model, inputs)
    for hook in hooks:
        hook.remove()
    call, why = calls[1]
    q, k = (kept[name].reshape(call.n, -1, 8).transpose(1, 0, 2) for name in ("q", "k"))

    def turned(x: np.ndarray, place: int) -> np.ndarray:
        first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
        half = np.stack([-second, first], axis=-1 if interleaved else -2).reshape(x.shape)
        return x * kept["cos"][place] + half * kept["sin"][place]

    scale = call.rule.scale
    for cell in why.cells:
        if cell["query"] < 3:
            continue
        query, keys = turned(q[cell["head"], cell["query"]], cell["query"]), k[cell["head"] // 2]
        places = range(cell["query"] + 1)
        scores = np.array([query @ turned(keys[j], j) for j in places]) * scale
        content = np.array([np.mean([query @ turned(keys[j], place) for place in places]) for j in places]) * scale
        assert cell["score"] == pytest.approx(scores[cell["key"]], abs=1e-4)
        assert cell["content"] == pytest.approx(content[cell["key"]] - content.mean(), abs=1e-4)
        contrast = scores[cell["key"]] - scores.mean()
        assert cell["position"] == pytest.approx(contrast - cell["content"], abs=1e-4)


def test_t5s_bias_is_its_position() -> None:
    model = tiny("t5")
    calls, _ = cells_of(model, sentence(model))
    call, why = calls[0]
    assert call.rule.bias is not None
    for cell in why.cells:
        assert cell["position"] == cell["bias"] is not None
        assert cell["content"] == pytest.approx(cell["contrasts"].sum())


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("llama", "halves"),
        ("gpt_neox", "halves of a part"),
        ("glm", "interleaved of a part"),
        ("gpt_oss", "halves"),
        ("cohere2", "interleaved; none needed"),
        ("deepseek_v3", "halves of a part"),
        ("deepseek_v2", "interleaved of a part"),
        ("qwen3", "halves"),
        ("olmo2", "halves"),
        ("smollm3", "halves; none needed"),
        ("qwen3_next", "halves of a part"),
        ("esm", "halves"),
        ("gpt2", "none needed"),
        ("t5", "none needed"),
        (
            "hunyuan_v1_dense",
            "no: the query, un-rotated by cos and sin, is not the output of any module of the attention",
        ),
        ("bloom", "no: weights without q and k"),
    ],
)
def test_a_types_rotation_is_proved(kind: str, word: str) -> None:
    model, inputs = built(kind)
    assert why_verified(model, inputs) == word


def test_a_wrong_rotation_is_not_taken_for_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """cos and sin of another base: nothing that they turn back is what the projection put out."""
    model = tiny("llama")
    model.layers[0].self_attn.register_forward_pre_hook(
        lambda _, args, kwargs: (args, kwargs | {"decoy": kwargs.pop("position_embeddings")}), with_kwargs=True
    )
    model.layers[0].self_attn.forward = _with_its_own_angles(model.layers[0].self_attn.forward)
    calls, _ = cells_of(model, sentence(model))
    _, why = calls[0]
    assert why.not_split is not None and "un-rotated by cos and sin" in why.not_split
    assert all(cell["content"] is None and len(cell["contrasts"]) == 8 for cell in why.cells)


def _with_its_own_angles(forward: Callable[..., Any]) -> Callable[..., Any]:
    def with_others(*args: Any, decoy: Any, **kwargs: Any) -> Any:
        cos, sin = decoy
        angles = torch.atan2(sin, cos) * 0.7
        return forward(*args, position_embeddings=(angles.cos(), angles.sin()), **kwargs)

    return with_others


def test_texts_of_a_batch_are_explained_as_if_alone(smollm: LoadedModel) -> None:
    source = ModelSource(smollm)
    prompts = source.read(["The capital of France is", KEEPER])

    def parts(batch: list[Prompt]) -> list[Why]:
        found: list[Why] = []

        def visit(call: Call) -> None:
            part = reduce(call, ExplainedKeys(3, rows=[call.n - 1])).part(Why)
            assert part is not None
            found.append(part)

        source.each(batch, Selection((2,)), visit, rotations=True)
        return found

    alone = [parts([prompt])[0] for prompt in prompts]
    for one, other in zip(alone, parts(prompts), strict=True):
        assert one.rotation == other.rotation == "halves"
        for a, b in zip(one.cells, other.cells, strict=True):
            assert (a["head"], a["query"], a["key"]) == (b["head"], b["query"], b["key"])
            assert a["content"] == pytest.approx(b["content"], abs=1e-3)


def test_nobody_asks_and_nothing_is_kept() -> None:
    model = tiny("llama")
    calls: list[Call] = []
    with torch.no_grad(), capture(model, calls.append):
        model(**sentence(model))
    assert all(isinstance(call, AttentionCall) and call.ingredients.turning is None for call in calls)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert to_numpy(calls[0].like).size
