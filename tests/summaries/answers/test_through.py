"""Token flow through all layers, against the product of dense layer matrices from eager attention."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from attn_cli.errors import InputError, LoadError
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.through import through
from tests.architectures.tiny import tiny_source
from tests.sources.huggingface.conftest import minilm, minilm_folder  # noqa: F401
from tests.sources.huggingface.intervene.oracle import prompt_of
from tests.sources.huggingface.residual.test_output_projection import dense

TEXT = "he sat on the river bank"


def dense_product(model: torch.nn.Module, ids: torch.Tensor, names: tuple[str, str, str, str], h: int) -> np.ndarray:
    """R = M_L ... M_1 `[n, n]` for a model whose layers, values, W_O and norm behind the sum have these names."""
    layers, value, projection, norm = names
    seen: dict[tuple[str, int], torch.Tensor] = {}
    handles = []
    blocks = list(model.get_submodule(layers).children())
    for at, block in enumerate(blocks):
        for kind, name in (("v", value), ("x", "")):
            module = block.get_submodule(name) if name else block
            if kind == "x":
                handles.append(
                    module.register_forward_pre_hook(lambda _, args, at=at: seen.update({("x", at): args[0]}))
                )
            else:
                handles.append(module.register_forward_hook(lambda _, a, out, at=at: seen.update({("v", at): out})))
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    for handle in handles:
        handle.remove()
    n = ids.shape[1]
    product = np.eye(n)
    for at, block in enumerate(blocks):
        w_o = dense(block.get_submodule(projection))
        v = seen["v", at][0].double().numpy()[:, -w_o.shape[0] :]  # of q, k and v in one array, the last
        x = seen["x", at][0].double().numpy()
        e = w_o.shape[0] // h
        sent = np.stack([v[:, e * i : e * i + e] @ w_o[e * i : e * i + e] for i in range(h)])
        vectors = np.einsum("hij,hjd->ijd", weights[at][0].double().numpy(), sent)
        vectors[range(n), range(n)] += x
        if norm:
            gain = block.get_submodule(norm).weight.detach().double().numpy()
            vectors = (vectors - vectors.mean(axis=-1, keepdims=True)) * gain
        lengths = np.linalg.norm(vectors, axis=-1)
        product = lengths / lengths.sum(axis=-1, keepdims=True) @ product
    return product


BERT = ("encoder.layer", "attention.self.value", "attention.output.dense", "attention.output.LayerNorm")


def test_the_river_in_the_bank(minilm: LoadedModel) -> None:  # noqa: F811
    source = ModelSource(minilm)
    prompt = source.read([TEXT])[0]
    answer = through(source, prompt, count=8)
    of_bank = {row["key_token"]: row["through_share"] for row in answer["through"] if row["query"] == 6}
    assert [of_bank[name] for name in ("bank", "river", "[SEP]", "[CLS]")] == pytest.approx(
        [0.220, 0.205, 0.125, 0.105], abs=6e-4
    )
    ids = torch.tensor([[token.id for token in prompt.tokens]])
    model = deepcopy(minilm.model)
    model.set_attn_implementation("eager")
    np.testing.assert_allclose(answer.matrices["through_share"], dense_product(model, ids, BERT, 12), atol=1e-5)
    overall = through(source, prompt, overall=True)
    np.testing.assert_allclose(
        overall.matrices["through_share"][0], answer.matrices["through_share"].mean(axis=0), atol=1e-6
    )


def test_words_add_up_and_rows_of_a_word_are_averaged(minilm: LoadedModel) -> None:  # noqa: F811
    source = ModelSource(minilm)
    prompt = source.read(["an unbelievable riverbank"])[0]
    pieces = [[at for at, token in enumerate(prompt.tokens) if token.word is not None and token.word.text == word]
              for word in ("an", "unbelievable", "riverbank")]  # fmt: skip
    pieces = [[0], *pieces, [len(prompt.tokens) - 1]]
    whole, merged = (through(source, prompt, words=words).matrices["through_share"] for words in (False, True))
    expected = np.array([[whole[np.ix_(row, key)].sum(axis=1).mean() for key in pieces] for row in pieces])
    np.testing.assert_allclose(merged, expected, atol=1e-6)


PRE_NORM = {"modernbert": ("layers", "attn.Wqkv", "attn.Wo", "")}
POST_NORM = {"bert": BERT, "roberta": BERT, "electra": BERT}


@pytest.mark.parametrize(("kind", "names"), [*PRE_NORM.items(), *POST_NORM.items()])
def test_tiny_encoders(kind: str, names: tuple[str, str, str, str]) -> None:
    """Norms behind the sum, and norms before it, in windows."""
    source = tiny_source(kind)
    model = source.loaded.model
    prefix = "" if hasattr(model, names[0].split(".")[0]) else f"{model.base_model_prefix}."
    answer = through(source, prompt_of())
    ids = torch.tensor([[token.id for token in prompt_of().tokens]])
    expected = dense_product(model, ids, (prefix + names[0], *names[1:]), model.config.num_attention_heads)
    np.testing.assert_allclose(answer.matrices["through_share"], expected, atol=1e-5)
    np.testing.assert_allclose(answer.matrices["through_share"].sum(axis=1), 1, atol=1e-6)


def test_what_has_no_layers_or_is_a_decoder_is_refused() -> None:
    with pytest.raises(LoadError, match="sends everything to the first token"):
        through(tiny_source("llama"), prompt_of())
    table = open_source("toy")
    with pytest.raises(InputError, match="one attention"):
        through(table, table.read([TEXT])[0])
