"""Origins of answers on SmolLM2: what `parts` finds, against the text without each part."""

from typing import Any

import pytest

from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import MessageText, TextPart, message_spans, named_parts, parts_of
from tests.loaded import load_once
from tests.real_models import SMOL
from tests.summaries.parts.left_out import bits_without
from tests.summaries.parts.traced_texts import STYLES, Case, traced_text


@pytest.fixture(scope="module")
def source() -> ModelSource:
    return ModelSource(load_once(find(str(SMOL), OriginOptions(predicts=True)), generates=True))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many variants each batch of runs with interventions holds."""
    counts: list[int] = []
    before = Runner.with_changes

    def counting(self: Runner, batch: Any, *arguments: Any) -> Any:
        counts.append(batch.size)
        return before(self, batch, *arguments)

    monkeypatch.setattr(Runner, "with_changes", counting)
    return counts


def answered(source: ModelSource, case: Case) -> tuple[Prompt, tuple[TextPart, ...]]:
    assert source.loaded.tokenizer is not None
    template = source.loaded.tokenizer.apply_chat_template

    def chat(messages: Any) -> str:
        return str(template(messages, tokenize=False, add_generation_prompt=True))

    text, cut, messages = traced_text(case, chat)
    prompt = source.written(source.read([text])[0], 32)
    within = (
        None
        if messages is None
        else message_spans(prompt.text, [MessageText(role, (content,)) for role, content in messages])
    )
    return prompt, named_parts(prompt, within or ()) if cut == "roles" else parts_of(prompt, cut, within)


@pytest.mark.parametrize("style", STYLES)
def test_the_part_without_whose_text_an_answer_loses_most_comes_first(
    source: ModelSource, style: str, runs: list[int]
) -> None:
    """Masked for the rows of the answer it loses nearly what it loses without the text; a run a part, and one."""
    prompt, parts = answered(source, Case(style, 150, 2))
    reading = read_parts(source, prompt, parts)
    first = reading["parts"][0]["part"]
    told = [at for at, part in enumerate(parts) if part.kind == "given"][:-1]  # without the question nothing is asked
    lost = bits_without(source, prompt, [parts[at] for at in told])
    without = {at: sum(of_part) for at, of_part in zip(told, lost, strict=True)}
    assert first == min(without, key=lambda at: without[at])
    assert reading["parts"][0]["hidden_bits"] == pytest.approx(without[first], rel=0.2)
    assert reading["parts"][0]["hidden_bits"] < -10
    assert sum(runs) == len(parts) + 1
