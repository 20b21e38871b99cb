"""Whole calls of a layer with a learned sink for every query, in which cells are hidden."""

import torch

from attn_cli.kernel.definition.mask import given_mask
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.intervene.attention import _output


def test_cells_are_hidden_beside_a_sink_for_every_query() -> None:
    torch.manual_seed(0)
    q, k, v, sink = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 4, 5, 1)
    causal, hidden = torch.ones(5, 5, dtype=torch.bool).tril(), torch.zeros(5, 5, dtype=torch.bool)
    hidden[2:, 1] = True
    keys, values = (x.repeat_interleave(2, dim=1) for x in (k, v))
    scores = (q @ keys.mT * 0.3).masked_fill(~causal | hidden, -torch.inf)
    weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]
    rule = LayerRule(0.3, mask=causal[None, None], sink_per_query=sink)
    torch.testing.assert_close(_output((q, k, v), rule, [given_mask(~hidden[None])]), weights @ values)
