"""The change of an answer's log2 p with parts of the text left out of it: plain torch, the rest run anew."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from math import log
from typing import Any

import torch

from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.text_parts import TextPart
from tests.attention_name import all_named


def bits_without(source: ModelSource, prompt: Prompt, parts: Sequence[TextPart]) -> list[list[float]]:
    """For each part, bits that the tokens of the answer lose, one by one, when its characters are not in the text."""
    runs = _Runs(source, prompt)
    whole = runs.log2_p(prompt.text[: runs.end])
    return [(runs.log2_p(text) - whole).tolist() for text in _texts(prompt, parts, runs.end)]


def _texts(prompt: Prompt, parts: Sequence[TextPart], end: int) -> Iterator[str]:
    for part in parts:
        text, at = "", 0
        for start, stop in part.spans:
            text, at = text + prompt.text[at:start], stop
        yield text + prompt.text[at:end]


class _Runs:
    """Runs of a model over texts and then the same answer."""

    def __init__(self, source: ModelSource, prompt: Prompt) -> None:
        assert source.loaded.generating is not None and source.loaded.tokenizer is not None
        assert prompt.generated is not None and prompt.generated.start is not None
        self.model, self.tokenizer = source.loaded.generating, source.loaded.tokenizer
        self.end = prompt.generated.start
        self.answer = [token.id or 0 for token in prompt.tokens if token.generated]
        self.ids: list[int] = []
        self.cache: Any = None

    def log2_p(self, text: str) -> torch.Tensor:
        """log2 p of each token of the answer after the text; the first text's keys and values are kept."""
        ids = [*self.tokenizer(text)["input_ids"], *self.answer]
        same = 0
        if self.cache is not None:
            limit = min(len(self.ids), len(ids) - len(self.answer) - 1)
            same = next((at for at in range(limit) if ids[at] != self.ids[at]), limit)
        cache = None if self.cache is None else deepcopy(self.cache)
        if cache is not None:
            cache.crop(same - len(self.ids))
        given: dict[str, Any] = {"input_ids": torch.tensor([ids[same:]]), "past_key_values": cache, "use_cache": True}
        with torch.no_grad(), all_named(self.model, "sdpa"):
            output = self.model(**given, logits_to_keep=len(self.answer) + 1)
        if self.cache is None:
            self.ids, self.cache = ids, output["past_key_values"]
        rows = output["logits"][0, :-1].double().log_softmax(-1) / log(2)
        return rows[range(len(self.answer)), self.answer]
