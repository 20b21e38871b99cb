"""Heads stand out by what they give weight to: everyday texts on real models and on one that learned nothing."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch

from attn_cli.call import Call
from attn_cli.explore.answer import opening
from attn_cli.explore.scene import Scene
from attn_cli.prompt import Token
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer
from attn_cli.summaries.reducers.kinds.targets import DELIMITER, FIRST, KINDS, UNIFORM
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import record
from attn_cli.summaries.standing_out import FOCUSED, StandOut, standing_out
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.overview import with_one_head, with_one_matrix
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.webpage.contents import start
from tests.sources.huggingface.test_kinds import random_network
from tests.summaries.reducers.kinds.oracle import targets

STORE = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXTS = {
    "a sentence": STORE,
    "six words": "he sat on the river bank",
    "Japanese": "日本語の文章を読む人は本を読む。彼は毎日新しい本を読むことが好きです。",
    "a chat": "User: Hi, can you help me?\nAssistant: Sure, what do you need?\nUser: A poem about the sea.\nAssistant:",
    "a refrain": "The quick brown fox jumps over the lazy dog. " * 6,
    "a word": "hello",
}


class Looked(NamedTuple):
    """The calls of a text with the kinds of their heads and all weights."""

    summaries: tuple[Summary, ...]

    @property
    def outs(self) -> list[StandOut]:
        return standing_out(self.summaries)

    def weights(self, call: int, at: int) -> np.ndarray:
        part = self.summaries[call].part(Matrix)
        assert part is not None and part.weights is not None
        return np.asarray(part.weights[at], np.float64)


def looked(tokens: tuple[Token, ...], run: Callable[[Callable[[Call], None]], object]) -> Looked:
    kinds, summaries = HeadKindsReducer(), list[Summary]()
    run(lambda call: summaries.append(reduce(call, kinds, MatrixOf())))
    return Looked(tuple(summaries))


def on_text(loaded: LoadedModel, text: str) -> Looked:
    source = ModelSource(loaded)
    prompt = source.read([text])[0]
    return looked(prompt.tokens, lambda visit: source.each([prompt], ALL, visit))


@pytest.fixture(scope="module")
def of_smollm(smollm: LoadedModel) -> dict[str, Looked]:
    return {name: on_text(smollm, text) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def of_minilm(minilm: LoadedModel) -> dict[str, Looked]:
    return {name: on_text(minilm, text) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def of_nothing_learned(minilm: LoadedModel) -> dict[str, Looked]:
    """The words of the same texts, read by a network that learned nothing."""
    model, found = random_network(288, 6, 3), {}
    for name, text in TEXTS.items():
        read = ModelSource(minilm).read([text])[0].tokens
        tokens = tuple(Token(at, token.text, (token.id or 0) % 500) for at, token in enumerate(read))
        ids = torch.tensor([[token.id for token in tokens]])

        def run(visit: Callable[[Call], None], ids: torch.Tensor = ids, tokens: tuple[Token, ...] = tokens) -> None:
            with torch.no_grad(), capture(model, visit, texts=[tokens]):
                model(input_ids=ids)

        found[name] = looked(tokens, run)
    return found


def test_a_share_of_next_to_nothing_is_no_finding(of_smollm: dict[str, Looked]) -> None:
    of_text = of_smollm["a sentence"]
    part = of_text.summaries[18].part(HeadKinds)
    assert part is not None and part.judged.share[0, 8] > 0.8  # of what it doesn't give to the sink
    assert of_text.weights(18, 8)[:, 1:].sum(axis=1).max() < 1e-3
    assert (18, 8) not in [(out.call, out.at) for out in of_text.outs]
    best = of_text.outs[0]
    assert best.kind is not FOCUSED and best.weight > 0.3
    assert of_text.weights(best.call, best.at)[4:, 1:].max(axis=1).mean() > 0.1


@pytest.mark.parametrize("model", ["of_smollm", "of_minilm", "of_nothing_learned"])
def test_no_head_is_named_whose_targets_get_less_than_a_tenth(model: str, request: pytest.FixtureRequest) -> None:
    """By loops over tokens on whole matrices; targets that are expected sinks aside."""
    causal, named = model != "of_minilm", 0
    for name, of_text in request.getfixturevalue(model).items():
        for call, summary in enumerate(of_text.summaries):
            part = summary.part(HeadKinds)
            assert part is not None
            for at, kind in enumerate(part.judged.kind.tolist()):
                if kind >= 0 and KINDS[kind] not in (DELIMITER, UNIFORM):  # named by the weight itself
                    weight = mean_on_targets(of_text.weights(call, at), KINDS[kind].name, summary.keys, causal=causal)
                    assert weight > 0.0999, (name, call, at, KINDS[kind].name)
                    named += 1
        for out in of_text.outs:
            assert out.weight >= 0.1
            assert out.strongest is not None
            query, key, weight = out.strongest
            assert of_text.weights(out.call, out.at)[query, key] == weight
            if out.kind is not FOCUSED:
                weights, keys = of_text.weights(out.call, out.at), of_text.summaries[out.call].keys
                assert mean_on_targets(weights, out.kind.name, keys, causal=causal) > 0.0999
    assert named or model == "of_nothing_learned"


def mean_on_targets(weights: np.ndarray, kind: str, tokens: tuple[Token, ...], *, causal: bool) -> float:
    names, special = [token.id for token in tokens], [token.special for token in tokens]
    sinks = set() if kind == FIRST.name else {0} if causal else {k for k in range(len(tokens)) if special[k]}
    rows = []
    for i in range(3 if causal else 0, len(weights)):
        at = [k for k in targets(kind, i, names, special, causal=causal) - sinks
              if 0 <= k < len(tokens) and (k <= i or not causal)]  # fmt: skip
        if at:
            rows.append(weights[i, at].sum())
    return float(np.mean(rows))


@pytest.mark.parametrize("model", ["of_smollm", "of_minilm", "of_nothing_learned"])
def test_the_matrix_of_an_overview_is_more_than_one_column(model: str, request: pytest.FixtureRequest) -> None:
    for name, of_text in request.getfixturevalue(model).items():
        chosen = [
            (summary, matrix)
            for summary in with_one_matrix([with_one_head(summary) for summary in of_text.summaries])
            if (matrix := summary.part(Matrix)) is not None
        ]
        [(summary, matrix)] = chosen
        assert matrix.weights is not None and matrix.weights.shape[0] == 1
        assert matrix.chosen is not None and (matrix.chosen.rows == 0) == (not of_text.outs)
        if of_text.outs:
            assert (summary.place.layer, matrix.heads) == (of_text.outs[0].layer, (of_text.outs[0].head,)), name
        if name != "a word" and of_text.outs:
            assert matrix.weights[0].sum(axis=0).max() < 0.9 * matrix.weights[0].sum(), name
    assert request.getfixturevalue(model)["a sentence"].outs


def test_overview_explorer_and_page_begin_at_the_same_head(minilm: LoadedModel, of_minilm: dict[str, Looked]) -> None:
    out = of_minilm["a chat"].outs[0]
    recording = record(ModelSource(minilm), TEXTS["a chat"])
    view = opening(Scene(recording, Screen(80, "none", height=24)))
    assert (view.at, view.head) == start(recording, standing_out(recorded_kinds(recording)))[:2] == (out.call, out.at)
    assert (out.layer, out.head) == (out.call, out.at) != (0, 0)


def test_a_recording_names_sinks_hubs_and_heads_as_the_model_does(
    smollm: LoadedModel, of_smollm: dict[str, Looked]
) -> None:
    recording = record(ModelSource(smollm), STORE)
    kept, live = (Looked(summaries) for summaries in (recorded_kinds(recording), of_smollm["a sentence"].summaries))
    sinks, seen = (
        [(sink["key"], sink["hub"], round(sink["residual_norm"] or 0, 2)) for sink in text_sinks(x.summaries)]
        for x in (kept, live)
    )
    assert sinks == seen and {key for key, *_ in seen} == {0, 6}
    assert all(residual > 1 for *_, residual in seen)
    assert [(out.name, out.kind, out.rows) for out in kept.outs] == [
        (out.name, out.kind, out.rows) for out in live.outs
    ]
