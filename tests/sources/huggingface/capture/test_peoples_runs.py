"""What people do in their own runs of a transformers model goes on as without capture, and is shown as it is."""

import numpy as np
import torch
from transformers import StaticCache

from attn_cli import FullMatrix, capture, reduce
from attn_cli.call import Call
from tests.sources.huggingface.models import sentence, tiny


def _weights(call: Call) -> np.ndarray:
    weights: np.ndarray = reduce(call, FullMatrix()).parts[0].weights
    return weights


@torch.no_grad()
def test_a_static_cache_has_no_weight_on_its_empty_places() -> None:
    model, seen = tiny("llama"), list[np.ndarray]()
    inputs, next_id = sentence(model, n=3), torch.tensor([[9]])
    own_cache, cache = (StaticCache(config=model.config, max_cache_len=8) for _ in range(2))
    model(**inputs, past_key_values=own_cache)
    own = model(next_id, past_key_values=own_cache, output_attentions=True)
    with capture(model, lambda call: seen.append(_weights(call))):
        model(**inputs, past_key_values=cache)
        output = model(next_id, past_key_values=cache)
    torch.testing.assert_close(output[0], own[0], rtol=0, atol=1e-5)
    for weights, expected in zip(seen[len(seen) // 2 :], own.attentions, strict=True):
        assert not expected[0, :, :, 4:].any()
        np.testing.assert_allclose(weights, expected[0], atol=1e-6)
