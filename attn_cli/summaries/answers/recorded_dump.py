"""A recording of a dump's queries and keys, or of its scores, by rules that are given or a model's."""

from collections.abc import Callable
from dataclasses import dataclass

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.source import Referring, Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.recording.rules import rule_in_numpy
from attn_cli.selection import Selection
from attn_cli.summaries.answers.dump_check import DumpCheck, FarthestRow
from attn_cli.summaries.answers.record import recorded
from attn_cli.summaries.answers.recorded_arrays import about_arrays, recording_of
from attn_cli.summaries.bisect.operands import DumpedOperands, HeadCounts
from attn_cli.summaries.calls.given_scores import call_of_scores


@dataclass(frozen=True)
class ModelRules:
    """How a model's layers turn scores into weights on a text, beside which a dump's q and k are read.

    rules     by layer: scale, mask and so on
    counts    by layer: how many query heads and key heads it has
    farthest  the row of the dump's weights that is farthest from the model's; None unless they were compared
    """

    rules: dict[int, Rule]
    counts: dict[int, HeadCounts]
    farthest: FarthestRow | None = None


def rules_of(
    source: Source, prompt: Prompt, operands_of: Callable[[dict[int, HeadCounts]], DumpedOperands], *, check: bool
) -> ModelRules:
    """The scale, mask and the like of a model's layers on a text, from one pass over it.

    operands_of  a function from the numbers of heads by layer to the q and k, or scores, that another engine dumped
    check        compare the weights that these give with the model's

    Raises InputError for scores of a layer with a learned sink, whose share of the weight they don't show.
    """
    rules: dict[int, Rule] = {}
    counts: dict[int, HeadCounts] = {}
    held = DumpCheck([token.id or 0 for token in prompt.tokens])

    def visit(call: Call) -> None:
        if not isinstance(call, AttentionCall) or call.place.layer in rules:
            return
        layer = call.place.layer
        rules[layer], counts[layer] = rule_in_numpy(call), HeadCounts(call.h, int(call.k.shape[0]))
        operands = operands_of(counts)
        if rules[layer].sink is not None and layer in operands.layers and not operands.shows_products:
            raise InputError(f"layer {layer} has a learned sink, which its scores alone don't show",
                             "dump its queries and keys")  # fmt: skip
        if check and layer in operands.layers:
            held.add(call, operands, rules[layer])

    source.each([prompt], Selection(), visit)
    if not check:
        return ModelRules(rules, counts)
    assert isinstance(source, Referring)
    return ModelRules(rules, counts, held.farthest(source.reference()))


def recording_of_dump(
    operands: DumpedOperands, rule: Callable[[int], Rule | None], prompt: Prompt, name: str
) -> Recording:
    """A recording of the layers that another engine dumped, by their queries and keys, or by their scores.

    rule  by layer the scale, mask and the like; None for causal attention at scale 1 / sqrt(d); unused for scores
    name  what the recording says of its source
    """
    if not operands.shows_products:
        calls = (call_of_scores(layer, operands.read_scores(layer), prompt.tokens) for layer in operands.layers)
        return Recording(about_arrays(name, "float32"), prompt, tuple(map(recorded, calls)))
    values = operands.side("v")
    return recording_of(
        operands.side("q"), operands.side("k"), values if len(values) else None,
        rule=lambda layer: operands.last_rows(rule(layer), layer), tokens=prompt.tokens, model=name,
    )  # fmt: skip
