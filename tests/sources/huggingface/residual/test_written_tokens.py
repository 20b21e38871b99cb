"""The logits that one head writes, against dense matrices: W_O, the norms and W_U, read from the modules by name."""

import numpy as np
import pytest
import torch

from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace
from tests.sources.huggingface.intervene.oracle import IDS, prompt_of, speaking_source
from tests.sources.huggingface.residual.test_logit_parts import DENSE, held

READS = {HeadPlace(0, 1): ((3, IDS[1]), (9, IDS[2])), HeadPlace(1, 0): ((11, IDS[0]),)}


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_neox"])
def test_logits_and_ranks_are_those_of_dense_matrices(kind: str) -> None:
    """Grouped heads; a norm behind attention; biases and a norm that takes the mean off."""
    source, (w_o, behind, final, is_one_plus, is_centred) = speaking_source(kind), DENSE[kind]
    model, ids = source.loaded.generating, sorted(set(IDS))
    assert model is not None
    written = source.written_tokens(prompt_of(), READS, ids)
    seen: dict[str, torch.Tensor] = {}
    names = [final, *(path.format(place.layer) for path in (w_o, behind) if path for place in READS)]
    handles = [
        model.get_submodule(name).register_forward_pre_hook(lambda _, args, name=name: seen.update({name: args[0][0]}))
        for name in names
    ]
    with torch.no_grad():
        model(**source.reader.arguments([prompt_of()]))
        for handle in handles:
            handle.remove()
        unembedding = model.get_output_embeddings().weight.double()
        for place, reads in READS.items():
            matrix = model.get_submodule(w_o.format(place.layer)).weight.double()
            h = written[place].vocabulary and model.config.num_attention_heads
            for at, (row, read) in enumerate(reads):
                part = (
                    matrix.chunk(h, dim=1)[place.head]
                    @ seen[w_o.format(place.layer)][row].double().chunk(h)[place.head]
                )

                def logit(
                    w: torch.Tensor, place: HeadPlace = place, row: int = row, part: torch.Tensor = part
                ) -> float:
                    u = held(model.get_submodule(final), seen[final][row], is_one_plus, is_centred, w)
                    if behind:
                        name = behind.format(place.layer)
                        u = held(model.get_submodule(name), seen[name][row], is_one_plus, is_centred, u)
                    return float(part @ u)

                every = np.array([logit(w) for w in unembedding])
                np.testing.assert_allclose(written[place].logits[at], (every - every.mean())[ids], rtol=1e-3, atol=1e-6)
                assert written[place].ranks[at] == 1 + int((every > every[read]).sum())
                assert written[place].vocabulary == len(every)


def test_a_model_whose_logit_is_no_plain_sum_is_refused() -> None:
    with pytest.raises(LoadError, match="it adds more than attention and one other module"):
        speaking_source("falcon_h1").written_tokens(prompt_of(), {HeadPlace(0, 0): ((3, 5),)}, (5,))
