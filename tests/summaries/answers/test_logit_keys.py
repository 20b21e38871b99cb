"""What heads write from each key to a logit, against dense matrices: weights, W_V, W_O, norms and W_U by name."""

import numpy as np
import pytest
import torch

from attn_cli.errors import LoadError
from attn_cli.selection import ALL, Selection
from attn_cli.sources.huggingface.capture.registry import all_named
from attn_cli.summaries.answers.logit_keys import logit_keys
from tests.sources.huggingface.intervene.oracle import prompt_of, speaking_source
from tests.sources.huggingface.residual.test_logit_parts import DENSE, held


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_keys_are_those_of_dense_matrices(kind: str) -> None:
    """Grouped heads; a norm behind attention, scores with a softcap."""
    source = speaking_source(kind)
    found = logit_keys(source, prompt_of(), ALL)
    model, (w_o, behind, final, is_one_plus, is_centred) = source.loaded.generating, DENSE[kind]
    assert model is not None
    seen: dict[str, torch.Tensor] = {}
    layers = sorted({row["layer"] for row in found["heads"]})
    names = [final, *(behind.format(layer) for layer in layers if behind)]
    values = [w_o.format(layer).replace("o_proj", "v_proj") for layer in layers]
    handles = [
        model.get_submodule(name).register_forward_pre_hook(lambda _, args, name=name: seen.update({name: args[0][0]}))
        for name in names
    ] + [
        model.get_submodule(name).register_forward_hook(lambda _, args, out, name=name: seen.update({name: out[0]}))
        for name in values
    ]
    with torch.no_grad(), all_named(model, "eager"):
        output = model(**source.reader.arguments([prompt_of()]), output_attentions=True)
    for handle in handles:
        handle.remove()
    with torch.no_grad():
        row = output.logits.shape[1] - 1
        token = int(output.logits[0, row].argmax())
        assert [x["id"] for x in found["answer"]] == [token]
        unembedding = model.get_output_embeddings().weight.double()
        direction = unembedding[token] - unembedding.mean(0)
        direction = held(model.get_submodule(final), seen[final][row], is_one_plus, is_centred, direction)
        sums = {(row["layer"], row["head"]): row["direct_logit"] for row in found["heads"]}
        for layer, head, value in zip(
            *(found.matrices[name] for name in ("layers", "heads", "direct_logit")), strict=True
        ):
            u = direction
            if behind:
                norm = behind.format(layer)
                u = held(model.get_submodule(norm), seen[norm][row], is_one_plus, is_centred, direction)
            weights = output.attentions[layer][0, head, row].double()
            h = output.attentions[layer].shape[1]
            matrix = model.get_submodule(w_o.format(layer)).weight.double().chunk(h, dim=1)[head]
            e = matrix.shape[1]
            v = seen[values[layers.index(layer)]].double()
            group = head * (v.shape[1] // e) // h
            expected = weights * (v[:, group * e : (group + 1) * e] @ (matrix.T @ u))
            np.testing.assert_allclose(value, expected.numpy(), atol=1e-5)
            assert value.sum() == pytest.approx(sums[layer, head], abs=1e-5)
    (run,) = found["run"]
    assert run["logit"] == pytest.approx(run["heads_logit"] + run["rest_logit"])


def test_what_is_listed() -> None:
    """Keys and heads, the largest first; the sums of a choice of heads are of these alone."""
    source = speaking_source("llama")
    every = logit_keys(source, prompt_of(), ALL)
    sums = [row["direct_logit"] for row in every["keys"]]
    assert sums == sorted(sums, reverse=True)
    assert sum(sums) == pytest.approx(every["run"][0]["heads_logit"], abs=1e-5)
    one = logit_keys(source, prompt_of(), Selection(pairs=((1, 2),)))
    (head,) = one["heads"]
    assert (1, 2, head["direct_logit"]) in [
        (row["layer"], row["head"], pytest.approx(row["direct_logit"], abs=1e-5)) for row in every["heads"]
    ]
    assert head["key"] == int(np.abs(one.matrices["direct_logit"][0]).argmax())


def test_heads_behind_a_gate_are_refused() -> None:
    with pytest.raises(LoadError):
        logit_keys(speaking_source("qwen3_next"), prompt_of(), ALL)
