"""Sentences that later ones rest on, against whole passes with a mask that is written out, and reads against loops."""

from typing import Any

import numpy as np
import pytest

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.definition.masks import Causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.selection import ALL
from attn_cli.summaries.parts.anchors import MOST_MASKED, Anchors, anchors_of
from attn_cli.summaries.parts.sentence_reads import SentenceReads, SentenceReadsReducer, received_by, receivers
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.sinks import HeadSinks
from tests.sources.huggingface.intervene.oracle import log2_p, prompt_of, speaking_source
from tests.summaries.parts.planted_trace import planted_source, planted_trace
from tests.summaries.parts.test_answer import hidden_mask

SENTENCES = ((0, 1, 2), (3, 4), (5, 6, 7), (8,), (9, 10, 11))
PARTS = [TextPart(f"sentence {at + 1}", (), tokens) for at, tokens in enumerate(SENTENCES)]


def trace() -> Prompt:
    """Twelve tokens, those from the second sentence on as an answer."""
    prompt = prompt_of()
    tokens = tuple(Token(x.index, x.text, x.id, generated=x.index >= 3) for x in prompt.tokens)
    return Prompt("", tokens, generated=Generated("", 9, False, 0, given=True))


@pytest.mark.parametrize("kind", ["llama", "mistral", "gptj"])
def test_each_later_sentence_loses_what_it_loses_in_whole_passes(kind: str) -> None:
    source, prompt = speaking_source(kind), trace()
    answer = anchors_of(source, prompt, PARTS)
    model, window = source.loaded.generating, 1000
    assert model is not None
    if kind == "mistral":
        window = int(model.config.sliding_window)
    sinks = sinks_of(answer.summaries)

    def of_tokens(at: int | None) -> np.ndarray:
        """log2 p of each token from 3 on, with a sentence masked for all rows after it."""
        own = () if at is None else SENTENCES[at]
        keys = [key for key in own if key not in sinks] or list(own)
        rows = [row for row in range(12) if own and row > own[-1]]
        mask: Any = hidden_mask(rows, keys, 12, window)
        rows_of_words = log2_p(model, source.reader.arguments([prompt]) | {"attention_mask": mask})
        return np.array([float(rows_of_words[token.index - 1, token.id]) for token in prompt.tokens[3:]])

    before = of_tokens(None)
    for at, anchor in enumerate(answer.anchors[:-1]):
        lost = of_tokens(at) - before
        by_sentence = [lost[[token - 3 for token in tokens]].sum() for tokens in SENTENCES[1:]]
        assert anchor.bits == pytest.approx(sum(by_sentence[at:]), abs=2e-4)
        assert anchor.answer_bits == pytest.approx(by_sentence[-1], abs=1e-4)
        assert {x.sentence for x in anchor.leaning} <= set(range(at + 1, 5))
        for leaning in anchor.leaning:
            assert leaning.bits == pytest.approx(by_sentence[leaning.sentence - 1], abs=1e-4)
    assert max(abs(x.bits or 0) for x in answer.anchors) > 0.05
    assert answer.anchors[-1].bits is None and answer.noise_floor.effect < 1e-3


def sinks_of(summaries: tuple[Summary, ...]) -> set[int]:
    """Keys that a tenth of the heads call a sink."""
    found = np.concatenate([x.part(HeadSinks).reception.is_sink for x in summaries])  # type: ignore[union-attr]
    return set(np.flatnonzero(found.mean(axis=0) >= 0.1).tolist())


def a_call(weight: float) -> Call:
    """Two heads over ten sentences of three tokens; from sentence 4 on the second head reads sentence 2 by `weight`."""
    random = np.random.default_rng(0)
    q, k = random.standard_normal((2, 30, 4)), random.standard_normal((2, 30, 4)) * 0.3
    q[1, :, 0], k[1, :, 0] = np.where(np.arange(30) >= 12, weight, 0), np.isin(np.arange(30), (6, 7, 8))
    tokens = tuple(Token(at, "x") for at in range(30))
    place = Place(3, "toy", (0, 1), (0, 1))
    return AttentionCall(q, k, k, Rule(scale=1.0, mask=Causal()), place, tokens, tokens)


def reads_of(call: Call, sinks: np.ndarray | None = None) -> Summary:
    reducer = SentenceReadsReducer([range(3 * at, 3 * at + 3) for at in range(10)], 30)
    reducer.sinks = sinks
    return reduce(call, reducer)


@pytest.mark.parametrize("sink", [None, 0, 7])
def test_reads_are_those_of_loops_over_dense_weights(sink: int | None) -> None:
    call = a_call(2.0)
    sinks = None
    if sink is not None:
        sinks = np.zeros((2, 30), dtype=bool)
        sinks[1, sink] = True
    part = reads_of(call, sinks).part(SentenceReads)
    assert part is not None
    scores = np.where(np.tril(np.ones((30, 30), dtype=bool)), call.q @ call.k.transpose(0, 2, 1), -np.inf)  # type: ignore[attr-defined]
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    if sink is not None:
        weights[1, :, sink] = 0
    for head in range(2):
        reads = weights[head].reshape(10, 3, 10, 3).mean(axis=1).mean(axis=-1)
        usual = {d: np.mean([reads[at, at - d] for at in range(d, 10)]) for d in range(2, 10)}
        for sentence in range(8):
            expected = [reads[at, sentence] / usual[at - sentence] for at in range(sentence + 2, 10)]
            assert part.received[head, sentence] == pytest.approx(np.mean(expected), rel=1e-6)
            if len(expected) >= 4:
                assert part.median[head, sentence] == pytest.approx(np.median(expected), rel=1e-6)
    assert np.isnan(part.received[:, 8:]).all() and np.isnan(part.median[:, 5:]).all()


def test_a_receiver_head_is_one_whose_sentences_agree() -> None:
    (receiver,) = receivers([reads_of(a_call(5.0))])
    assert (receiver.place.layer, receiver.place.head, receiver.sentence) == (3, 1, 2)
    assert receiver.times >= 3 and receiver.clear >= 5
    assert not receivers([reads_of(a_call(0.0))])
    assert np.nanargmax(received_by([reads_of(a_call(5.0))], [receiver])) == 2


def test_links_that_were_planted_are_found_and_no_others() -> None:
    """A sentence that asks rests on the one that told; more sentences than are masked, all that told among them."""
    trace = planted_trace(48, 12)
    answer = anchors_of(planted_source(48 * 12), trace.prompt, trace.parts)
    found = {(x.sentence, anchor.number) for anchor in answer.anchors for x in anchor.leaning}
    assert found == trace.rests and len(found) == 8
    assert sum(anchor.bits is not None for anchor in answer.anchors) == MOST_MASKED < 47
    ((told, bits),) = answer.of_answer
    assert (47, told.number) in trace.rests and bits < -5


def test_the_most_read_sentences_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.summaries.parts.anchors.MOST_MASKED", 2)
    answer: Anchors = anchors_of(speaking_source("llama"), trace(), PARTS, ALL)
    masked = [anchor.number for anchor in answer.anchors if anchor.bits is not None]
    assert len(masked) == 2 and 3 in masked  # no later sentence is far enough from 3 for its read to be known
    assert [anchor.number for anchor in answer.order] == sorted(masked, key=lambda at: answer.anchors[at].bits)  # type: ignore[arg-type,return-value]
