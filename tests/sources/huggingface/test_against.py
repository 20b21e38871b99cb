"""Two texts side by side in real models and in tiny ones of every kind: known heads, and dense weights of both runs."""

import numpy as np
import pytest
import torch

from attn_cli.call import Call
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.against.head_changes import head_changes
from attn_cli.summaries.against.kept import kept_call
from attn_cli.summaries.against.side_by_side import side_by_side
from tests.architectures.tiny import tiny_source
from tests.sources.huggingface.runs import eager_by_stream

Changes = dict[tuple[str, int, int], tuple[float, float]]
"""By stream, layer and head: the change in the mean over rows, and in the last row."""

MARY = "When Mary and John went to the store, {} gave a drink to"


def in_a_batch(source: ModelSource, prompts: list[Prompt]) -> Changes:
    """Both texts in one pass, layer by layer."""
    waiting: dict[tuple[str, int], Call] = {}
    changes: Changes = {}

    def visit(call: Call) -> None:
        key = call.place.stream, call.place.layer
        if call.place.text == 0:
            waiting[key] = call
        else:
            changes.update(changes_of(waiting.pop(key), call))

    source.each(prompts, Selection(), visit)
    assert not waiting
    return changes


def changes_of(call: Call, other: Call) -> Changes:
    part = head_changes(side_by_side(call, other))
    numbers = zip(part.changes.tolist(), part.last_changes.tolist(), strict=True)
    return {(call.place.stream, call.place.layer, head): each for head, each in enumerate(numbers)}


def test_a_name_that_was_swapped_moves_the_heads_that_move_names(smollm: LoadedModel) -> None:
    source = ModelSource(smollm)
    changes = in_a_batch(source, [source.read([MARY.format(name)])[0] for name in ("John", "Mary")])
    last = sorted(((number, head) for (_, *head), (_, number) in changes.items()), reverse=True)
    known = [(0.826, [24, 4]), (0.639, [22, 7]), (0.639, [21, 8]), (0.598, [23, 0])]
    for number, head in known:
        assert changes["self", head[0], head[1]][1] == pytest.approx(number, abs=5e-4)
        assert head in [each for _, each in last[:4]]
    assert np.mean([number for number, _ in last]) == pytest.approx(0.065, abs=5e-4)


def test_a_country_that_was_swapped_leaves_the_head_that_looks_at_it(smollm: LoadedModel) -> None:
    source = ModelSource(smollm)
    prompts = [source.read([f"The capital of {country} is"])[0] for country in ("France", "Italy")]
    changes = in_a_batch(source, prompts)
    assert changes["self", 23, 4][1] == pytest.approx(0.018, abs=5e-4)
    assert changes["self", 29, 0][1] == pytest.approx(0.234, abs=5e-4)


def prompt_of(source: ModelSource, ids: list[int]) -> Prompt:
    def tokens(numbers: list[int]) -> tuple[Token, ...]:
        return tuple(Token(at, str(number), number) for at, number in enumerate(numbers))

    return Prompt("", tokens(ids), others={"decoder": tokens([0, 5, 7])} if source.reader.has_decoder else {})


def eager_weights(source: ModelSource, prompt: Prompt) -> dict[str, list[np.ndarray]]:
    """By stream the weights `[h, n, m]` of all layers that the model's own eager attention returns."""
    model = source.loaded.model
    names = {"input_ids": prompt.tokens, "decoder_input_ids": prompt.others.get("decoder", ())}
    inputs = {name: torch.tensor([[token.id for token in tokens]]) for name, tokens in names.items() if tokens}
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return eager_by_stream(model(**inputs, output_attentions=True))


@pytest.mark.parametrize(
    "kind", ["mistral", "gemma2", "gpt_oss", "deepseek_v3", "falcon@alibi", "lfm2", "t5", "cohere", "olmo2"]
)
def test_changes_are_those_of_eagers_weights_of_both_runs(kind: str) -> None:
    """Windows, softcaps, sinks, latent keys, ALiBi seen as weights, a hybrid, encoder and decoder, parallel blocks,
    norms of q and k over all heads."""
    source = tiny_source(kind)
    prompts = [prompt_of(source, ids) for ids in ([9, 21, 33, 45, 57, 69], [9, 21, 34, 45, 70, 69])]
    kept: dict[tuple[str, int], Call] = {}
    one_by_one: Changes = {}

    def visit(call: Call) -> None:
        key = call.place.stream, call.place.layer
        if key in kept:
            one_by_one.update(changes_of(kept[key], call))
        else:
            kept[key] = kept_call(call)

    for prompt in prompts:
        source.each([prompt], Selection(), visit)
    runs = [one_by_one] if source.batch_size == 1 else [one_by_one, in_a_batch(source, prompts)]
    eager = [eager_weights(source, prompt) for prompt in prompts]
    assert len(kept) == sum(map(len, eager[0].values())) > 0
    dense = [{place: of[place[0]].pop(0) for place in kept} for of in eager]
    expected: Changes = {}
    for (stream, layer), weights in dense[0].items():
        rows = np.abs(dense[1][stream, layer] - weights).sum(axis=-1) / 2  # [h, n]
        for number, changed in enumerate(rows):
            expected[stream, layer, number] = float(changed.mean()), float(changed[-1])
    for changes in runs:
        assert changes.keys() == expected.keys()
        for head, numbers in expected.items():
            assert changes[head] == pytest.approx(numbers, abs=1e-5)
    assert max(number for number, _ in expected.values()) > 0.05
