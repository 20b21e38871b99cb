"""The accuracy of `attn parts` in naming the part of a text that the next word comes from, with SmolLM2-135M."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch

from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.answer import PartsRead, read_parts
from attn_cli.summaries.parts.text_parts import TextPart, parts_of
from tests.benchmarks.generated_texts import lookup, prose
from tests.real_models import SMOL
from tests.sources.huggingface.intervene.oracle import log2_p

LOOKUPS, LOOKUP_BAR = 40, 38
STRETCHES, PROSE_BAR = 12, 11


def lines() -> Iterator[str]:
    """A line for each text, and two that count."""
    path = SMOL
    torch.set_num_threads(1)  # threads that wait for each other only slow each other down
    source = ModelSource(load(find(str(path), OriginOptions(predicts=True))))
    yield from _lookups(source)
    yield from _stretches(source)


def _lookups(source: ModelSource) -> Iterator[str]:
    """Lookups whose answer the model finds: the used line must come first."""
    found = tried = 0
    for seed in count():
        if tried == LOOKUPS:
            break
        text, used, answer = lookup(seed)
        (prompt,) = source.read([text])
        written = source.written(prompt, 32)
        if written.generated is None or not written.generated.text.strip().startswith(answer.split()[0]):
            continue
        reading = read_parts(source, written, parts_of(written, "lines"))
        tried += 1
        found += reading.order[0].number == used
        yield f"lookup {seed}: {written.generated.text.strip()!r}, used {used}, {_leading(reading)}"
    yield f"lookups: the used line first in {found} of {tried}, bar {LOOKUP_BAR}"


def _stretches(source: ModelSource) -> Iterator[str]:
    """Stretches of prose: the part that the next word needs, hidden from everyone by a mask, must come first."""
    everywhere = alone = 0
    for seed in range(STRETCHES):
        prompt, parts = read(source, prose(seed), "sentences")
        needed = most_needed(source, prompt, parts)
        reading = read_parts(source, prompt, parts, everywhere=True)
        by_rows = read_parts(source, prompt, parts)
        everywhere += first_without_sink(reading) == needed
        alone += first_without_sink(by_rows) == needed
        yield f"prose {seed}: {_word(reading)!r}, needed {needed}, {_leading(reading)}, by rows {_leading(by_rows)}"
    yield f"prose: the needed sentence first in {everywhere} of {STRETCHES} everywhere, bar {PROSE_BAR}"
    yield f"prose: the needed sentence first in {alone} of {STRETCHES}, hidden from the last part's rows alone"


def read(source: ModelSource, text: str, cut: str) -> tuple[Prompt, tuple[TextPart, ...]]:
    """The prompt of a text and its parts."""
    (prompt,) = source.read([text])
    return prompt, parts_of(prompt, cut)


def first_without_sink(reading: PartsRead) -> int:
    """The number of the part that comes first, that of the sink left out."""
    return next(part.number for part in reading.order if part.number)


def most_needed(source: ModelSource, prompt: Prompt, parts: tuple[TextPart, ...]) -> int:
    """The number of the part, but the first and the last, that the likeliest next word needs most.

    By whole passes of the model's own attention under a mask that is written out, in which no row after a part sees it.
    """
    plain = _masked(source, prompt, ())
    best = int(plain.argmax())
    effects = {at: float(_masked(source, prompt, part.tokens)[best]) for at, part in enumerate(parts)}
    return min(list(effects)[1:-1], key=lambda at: effects[at])


def _masked(source: ModelSource, prompt: Prompt, keys: tuple[int, ...]) -> torch.Tensor:
    """log2 p of all next words when rows after the keys can't see them."""
    n = len(prompt.tokens)
    mask = torch.full((n, n), float("-inf")).triu(1)
    if keys:
        mask[keys[-1] + 1 :, list(keys)] = float("-inf")
    model = source.loaded.generating
    assert model is not None
    arguments: dict[str, Any] = source.reader.arguments([prompt]) | {"attention_mask": mask[None, None]}
    return log2_p(model, arguments)[-1]


def _word(reading: PartsRead) -> str:
    assert reading.hidden is not None and reading.hidden.target is not None
    return reading.hidden.target.tokens[0].text.strip()


def _leading(reading: PartsRead) -> str:
    """The three parts that come first, with their effects."""
    return " ".join(f"{part.number}:{reading.effects[part.number]:.2f}" for part in reading.order[:3])
