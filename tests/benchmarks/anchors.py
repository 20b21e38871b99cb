"""How truly, and at what cost, `attn parts --anchors` says what the sentences of a trace rest on."""

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.capture.registry import all_named
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.anchors import Anchors, anchors_of
from attn_cli.summaries.parts.text_parts import TextPart, parts_of
from tests.benchmarks.timing import peak_mebibytes
from tests.real_models import SMOL
from tests.sources.huggingface.intervene.oracle import log2_p
from tests.summaries.parts.planted_trace import PlantedTrace, planted_source, planted_trace
from tests.summaries.parts.test_anchors import sinks_of
from tests.summaries.parts.test_answer import hidden_mask

SENTENCES, LENGTH = 400, 25
TRACE = (
    "A harbour has 12 boats and each boat carries 4 nets. How many nets are there after 6 are sold and 10 are bought? "
    "First, I count the nets. There are 12 boats with 4 nets each, so there are 48 nets. The weather at sea is often "
    "rough. Then 6 nets are sold. So 48 minus 6 is 42. Fishermen mend their nets in winter. Let me check: 42 plus 6 is "
    "48. That is the number we began with. Next, 10 nets are bought. The old lighthouse was painted last year. So 42 "
    "plus 10 is 52. Some of the boats are painted blue. Wait, does each boat carry 4 nets? Yes, each boat carries 4 "
    "nets. So the number of nets is 52. Coffee is free on Sundays. The answer is 52."
)  # fmt: skip

_MEMORY = """
import sys, torch
from tests.benchmarks.anchors import of_planted, plain
from tests.summaries.parts.planted_trace import planted_source, planted_trace
torch.set_num_threads(1)
sentences, length = int(sys.argv[1]), int(sys.argv[2])
trace, source = planted_trace(sentences, length), planted_source(sentences * length)
(plain if sys.argv[3] == "plain" else of_planted)(source, trace)
"""


def lines(*, quick: bool) -> Iterator[str]:
    """A planted network at full length: links, time, memory; then SmolLM2, against one sentence hidden a pass."""
    torch.set_num_threads(1)  # threads that wait for each other only slow each other down
    yield from _planted(100 if quick else SENTENCES, LENGTH)
    yield from _smollm()


def of_planted(source: ModelSource, trace: PlantedTrace) -> Anchors:
    """Its anchors."""
    return anchors_of(source, trace.prompt, trace.parts)


def plain(source: ModelSource, trace: PlantedTrace) -> None:
    """A plain pass over a trace, by torch's own attention, with all its logits, which anchors read, too."""
    assert source.loaded.generating is not None
    with torch.no_grad(), all_named(source.loaded.generating, "sdpa"):
        source.loaded.generating(**source.reader.arguments([trace.prompt]), use_cache=False)


def found_in(answer: Anchors) -> set[tuple[int, int]]:
    """The pairs (later sentence, the one that it needs)."""
    return {(leaning.sentence, anchor.number) for anchor in answer.anchors for leaning in anchor.leaning}


def _planted(sentences: int, length: int) -> Iterator[str]:
    trace, source = planted_trace(sentences, length), planted_source(sentences * length)
    seconds = []
    for run in (partial(plain, source, trace), partial(of_planted, source, trace)):
        begin = time.process_time()
        answer = run()
        seconds.append(time.process_time() - begin)
    assert isinstance(answer, Anchors)
    found, masked = found_in(answer), {anchor.number for anchor in answer.anchors if anchor.bits is not None}
    told = {earlier for _, earlier in trace.rests}
    yield f"planted, {sentences * length:,} tokens, {sentences} sentences: {len(told & masked)} of {len(told)} " \
          f"anchors among the {len(masked)} masked; {len(found & trace.rests)} of {len(trace.rests)} links found, " \
          f"{len(found - trace.rests)} others"  # fmt: skip
    yield f"  {seconds[1]:.0f} s, {seconds[1] / seconds[0]:.1f} plain passes of {seconds[0]:.1f} s"
    peaks = {what: peak_mebibytes(_MEMORY, str(sentences), str(length), what) for what in ("plain", "anchors")}
    square = (sentences * length) ** 2 * 4 / 2**20
    yield (f"  peak {peaks['anchors']:,.0f} MiB, {peaks['anchors'] - peaks['plain']:+,.0f} over the plain pass; "
           f"the weights of one head would take {square:,.0f}")  # fmt: skip


def _smollm() -> Iterator[str]:
    path = SMOL
    source = ModelSource(load(find(str(path), OriginOptions(predicts=True))))
    (prompt,) = source.read([TRACE])
    parts = parts_of(prompt, "sentences")
    assert parts[1].start is not None
    prompt = prompt.ending_with_answer(parts[1].start, len(prompt.text))
    answer = anchors_of(source, prompt, parts)
    sinks = sinks_of(answer.summaries)
    own = [anchor.bits or 0.0 for anchor in answer.anchors[:-1]]
    hidden = [_without(source, prompt, part, sinks, deleted=False) for part in parts[:-1]]
    deleted = [_without(source, prompt, part, sinks, deleted=True) for part in parts[:-1]]
    apart = max(abs(a - b) for a, b in zip(own, hidden, strict=True))
    yield f"SmolLM2, {len(prompt.tokens)} tokens, {len(parts)} sentences, bits of later ones: {apart:.4f} at most " \
          f"from whole passes with the sentence masked, rank correlation {_rank_correlation(own, hidden):.3f}; " \
          f"{_rank_correlation(own, deleted):.3f} with its tokens deleted"  # fmt: skip


def _without(source: ModelSource, prompt: Prompt, part: TextPart, sinks: set[int], *, deleted: bool) -> float:
    """Bits that all tokens after a part lose without it, by whole eager passes."""
    assert source.loaded.generating is not None
    model, ids, n = source.loaded.generating, [token.id or 0 for token in prompt.tokens], len(prompt.tokens)
    later = range(part.tokens[-1] + 1, n)
    keys = [key for key in part.tokens if key not in sinks] or list(part.tokens)

    def bits(kept: list[int], mask: torch.Tensor) -> float:
        rows = log2_p(model, {"input_ids": torch.tensor([[ids[at] for at in kept]]), "attention_mask": mask})
        return sum(float(rows[kept.index(at) - 1, ids[at]]) for at in later)

    every = list(range(n))
    before = bits(every, hidden_mask([], [], n, n))
    if deleted:
        kept = [at for at in every if at not in keys]
        return bits(kept, hidden_mask([], [], len(kept), n)) - before
    return bits(every, hidden_mask(later, keys, n, n)) - before


def _rank_correlation(one: list[float], other: list[float]) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(ranks)[0, 1])
