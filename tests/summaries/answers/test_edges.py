"""Writers taken out of what one head reads, against whole passes in which W_O is given the dense writers' sum."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.answers.edges import Edges, edges_of
from tests.sources.huggingface.intervene.oracle import log2_p, prompt_of, speaking_source
from tests.sources.huggingface.residual.dense_writers import DenseWriters, linear
from tests.sources.huggingface.residual.writers_families import FAMILIES

PLACE, ROW = HeadPlace(1, 3), 11


def found_by_attn(kind: str) -> Edges:
    source = speaking_source(kind)
    prompt = prompt_of()
    return edges_of(source, source.experiment(prompt), prompt, PLACE, 12)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_edges_are_those_of_whole_passes(kind: str) -> None:
    """Grouped heads; norms of queries and keys."""
    edges = found_by_attn(kind)
    source = speaking_source(kind)
    model = source.loaded.generating
    assert model is not None
    arguments = source.reader.arguments([prompt_of()])
    family = FAMILIES[kind]
    dense = DenseWriters(model, arguments, family, 1)
    values = DenseWriters(
        model, arguments, replace(family, k=linear("self_attn.v_proj"), k_norm="", turned=""), 1
    ).keys  # [g, n, e] by writer
    group, scale = PLACE.head * dense.g // dense.h, dense.queries["embedding"].shape[-1] ** -0.5
    q = {name: x[PLACE.head, ROW] * scale for name, x in dense.queries.items()}
    k = {name: x[group, : ROW + 1] for name, x in dense.keys.items()}
    v = {name: x[group, : ROW + 1] for name, x in values.items()}
    total_q, total_k, total_v = sum(q.values()), sum(k.values()), sum(v.values())
    before = log2_p(model, arguments)[ROW]
    target = int(before.argmax())

    def bits(output: Any) -> float:
        hook = model.get_submodule(family.w_o.format(1)).register_forward_pre_hook(putting(output))
        after = log2_p(model, arguments)[ROW]
        hook.remove()
        return float(after[target] - before[target])

    assert bits((total_k @ total_q).softmax(0) @ total_v) == pytest.approx(0, abs=1e-4)
    assert edges.noise_floor.effect < 1e-4
    assert edges.ablated.bits == pytest.approx(bits(torch.zeros(total_v.shape[-1])), abs=1e-4)
    expected = {}
    for name in q:
        expected[name, "query"] = bits((total_k @ (total_q - q[name])).softmax(0) @ total_v)
        expected[name, "keys"] = bits(((total_k - k[name]) @ total_q).softmax(0) @ total_v)
        expected[name, "values"] = bits((total_k @ total_q).softmax(0) @ (total_v - v[name]))
    assert max(map(abs, expected.values())) > 0.05
    found = {(edge.writer.name, edge.through): edge.outcome.bits for edge in edges.edges}
    assert found == pytest.approx(expected, abs=1e-4)
    assert [edge.outcome.effect for edge in edges.edges] == sorted(edge.outcome.effect for edge in edges.edges)


def putting(output: torch.Tensor) -> Any:
    """A pre-hook of W_O that puts one head's output into the last row of what it is given."""

    def hook(_: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        x = args[0].clone()
        x[0, ROW, PLACE.head * len(output) : (PLACE.head + 1) * len(output)] = output.to(x.dtype)
        return (x, *args[1:])

    return hook
