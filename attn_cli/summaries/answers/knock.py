"""attn knock: each head ablated, and its effect on the answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from attn_cli.call import Call, Look
from attn_cli.errors import InputError, LoadError
from attn_cli.fields import Field, made
from attn_cli.model.intervention import (
    AttentionLayer,
    Experiment,
    HeadPlace,
    Intervention,
    LogitParts,
    NoiseFloor,
    Outcome,
    RunMode,
    Target,
)
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.answers.knocked_head import FIELDS, HEAD, KEY, HiddenKey, KnockedHead
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.overall import Overall, OverallKeys
from attn_cli.summaries.report import Answer

_TOP_KEYS = 3  # keys that are noted for a head
_ANSWERING = ("self", "text", "decoder", "cross")  # streams whose queries are rows of the stack that answers

ChosenHeads = tuple[AttentionLayer, Sequence[HeadPlace]]
"""A layer, and those of its heads that are ablated."""


@dataclass(frozen=True, eq=False)
class KnockBaseline:
    """The run that ablations are held against, and what it shows of each chosen head.

    top_keys          the 3 keys of largest mean weight over the rows that choose the answer, with these weights
    direct            what outputs add through W_O to the target's logit, less the mean over all logits; None if unknown
    no_direct_reason  why it isn't known; "" where it is or where there is no target
    """

    experiment: Experiment
    layers: Sequence[ChosenHeads]
    top_keys: Mapping[HeadPlace, tuple[tuple[Token, float], ...]]
    direct: LogitParts | None = None
    no_direct_reason: str = ""

    @classmethod
    def of(
        cls,
        source: Predicting,
        prompt: Prompt,
        rows: Sequence[int] | None,
        selection: Selection,
        *,
        everywhere: bool,
        mean: bool,
        step: Callable[[], None] = lambda: None,
    ) -> "KnockBaseline":
        """Run a prompt; `step` is called after each layer, and `rows` are those in which heads will be ablated."""
        tokens = prompt.others.get("decoder", prompt.tokens)
        choosing = [token.index - 1 for token in tokens if token.generated and token.index > 0]
        choosing = choosing or [len(tokens) - 1 if rows is None or everywhere else max(rows)]
        top_keys: dict[HeadPlace, tuple[tuple[Token, float], ...]] = {}

        def visit(call: Call) -> None:
            answers = source.has_lm_head and call.place.stream in _ANSWERING
            summary = reduce(call, OverallKeys(_TOP_KEYS, rows=choosing if answers else None))
            part = summary.part(Overall)
            assert part is not None
            for at, head in enumerate(summary.place.heads):
                pairs = zip(part.keys[at].tolist(), part.shares[at].tolist(), strict=True)
                keys = tuple((summary.keys[key], float(weight)) for key, weight in pairs if key >= 0)
                top_keys.setdefault(HeadPlace(call.place.layer, head, call.place.stream), keys)
            step()

        look = Look(selection, visit)
        experiment = source.experiment(prompt, rows, everywhere=everywhere, mean=mean, look=look)
        layers = chosen_heads(experiment.layers, selection)
        if not experiment.visited:
            top_keys.clear()
            source.each([prompt], *look)
        direct, reason = None, ""
        try:
            direct = None if experiment.target is None else source.logit_parts(prompt, experiment)
        except LoadError as error:
            reason = error.message
        return cls(experiment, layers, top_keys, direct, reason)


@dataclass(frozen=True, eq=False)
class Knock(Answer):
    """The effect of ablating each head on an answer, the most needed head first.

    target      the answer; None for a model without a language-model head, whose mean vector is compared instead
    row_tokens  the tokens in whose rows heads were ablated; `everywhere` if these are all rows
    mean        whether heads were ablated to their mean, not to 0
    together    the outcome of all these heads ablated at once; None unless it was asked for
    noise_floor the largest |effects| of copies of the run with nothing changed, in bits or as 1 - cosine: rounding
    run_mode    how rows were computed: "cache" (last rows alone, by the KV cache), "prefix" (whole passes from the
                first changed block on) or "whole"
    no_cache_reason  why that wasn't "cache"; "" where it was
    no_direct_reason  why it isn't known what heads add by themselves to the target's logit; "" where it is
    vector      which vector is compared where there is no target: "mean" or "first"
    hidden      the effect of masking the key that the most needed head attends to most; None where that isn't known
    shown       how many heads a screen names; None for all. Data has all
    """

    name: ClassVar[str] = "knock"
    fields: ClassVar[Sequence[Field]] = FIELDS

    heads: tuple[KnockedHead, ...]
    target: Target | None
    row_tokens: tuple[Token, ...]
    everywhere: bool
    mean: bool
    noise_floor: NoiseFloor
    run_mode: RunMode
    no_cache_reason: str
    together: Outcome | None = None
    shown: int | None = None
    no_direct_reason: str = ""
    vector: Literal["mean", "first"] = "mean"
    hidden: HiddenKey | None = None

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows in which heads were ablated, by index."""
        return tuple(token.index for token in self.row_tokens)

    @property
    def table_rows(self) -> list[dict[str, Any]]:
        """The ablated heads as rows of tables and JSON, the most needed first."""
        several = len({head.place.stream for head in self.heads}) > 1
        return [{"head": head, "stream": head.place.stream if several else None} for head in self.heads]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per ablated head, the most needed first: layer, head, kv_head, effects, key, key_token and weight."""
        none = dict.fromkeys(field.name for field in KEY)
        for row in self.table_rows:
            yield made(HEAD, row) | (made(KEY, row["head"].top_keys[0]) if row["head"].top_keys else none)

    def arrays(self) -> dict[str, np.ndarray]:
        """`layers`, `heads`, `kv_heads`, `streams` (encoder ...) and effects of heads, `[heads]`, most needed first."""
        numbers = {
            name: np.array([np.nan if value is None else value for value in values], dtype=np.float64)
            for name, values in {
                **{
                    name: [getattr(head.outcome, name) for head in self.heads]
                    for name in ("bits", "kl_bits", "loss_bits", "cosine_distance")
                },
                "direct_logit": [head.direct for head in self.heads],
            }.items()
        }
        return {
            "layers": np.array([head.place.layer for head in self.heads]),
            "heads": np.array([head.place.head for head in self.heads]),
            "kv_heads": np.array([head.kv_head for head in self.heads]),
            "streams": np.array([head.place.stream for head in self.heads], dtype=np.str_),
            **{name: values for name, values in numbers.items() if not np.isnan(values).all()},
        }


def knock(
    source: Predicting,
    text: str | Prompt,
    *,
    rows: Sequence[int] | None = None,
    everywhere: bool = False,
    mean: bool = False,
    selection: Selection = ALL,
    together: bool = False,
    vector: Literal["mean", "first"] = "mean",
) -> Knock:
    """Ablate each chosen head of a model in turn, and compare its answer with the baseline's.

    source      a model opened with `open_source(model, predicts=True)`
    rows        the rows in which heads are ablated; None for those that choose the answer (with `everywhere` all)
    mean        ablate a head to its mean output over the other rows, not to 0
    selection   the heads; all by default
    together    ablate all chosen heads at once, too
    vector      which vector of an encoder is compared: the mean of all tokens, or the first, such as that of [CLS]

    Effects are in bits: log2 p(answer) without the head, less log2 p(answer). The answer is the likeliest next token of
    the last row, or what was generated. Encoders: 1 - cosine of the vectors with and without the head.

    Raises InputError for a head or row that isn't there, LoadError for a model in which heads can't be ablated.

        knocked = knock(open_source("gpt2", predicts=True), "The capital of France is")
        for head in knocked.heads[:5]:
            print(head.place.layer, head.place.head, head.outcome.bits)
    """
    prompt = source.read([text])[0] if isinstance(text, str) else text
    baseline = KnockBaseline.of(source, prompt, rows, selection, everywhere=everywhere, mean=mean)
    baseline.experiment.vector = vector
    return knock_of(baseline, mean=mean, together=together)


def chosen_heads(layers: Sequence[AttentionLayer], selection: Selection) -> list[ChosenHeads]:
    """The chosen heads by layer, in the order of the forward pass."""
    if layers:
        selection.check_layers([(layer.stream, layer.layer) for layer in layers])
    chosen: list[ChosenHeads] = []
    for layer in layers:
        if selection.has_layer(layer.layer, layer.blocks, layer.stream):
            heads = selection.pick_heads(len(layer.groups), layer.layer, layer.blocks)
            chosen.append((layer, [layer.heads[head] for head in heads]))
    if not any(heads for _, heads in chosen):
        raise InputError("no head of the model is among those chosen", "attn layers lists layers and heads")
    return chosen


def interventions_of(layers: Sequence[ChosenHeads]) -> list[Intervention]:
    """For each chosen head, in order, the change of a run that ablates it alone: to 0, or to the mean if runs do so."""
    return [Intervention((head,)) for _, heads in layers for head in heads]


def knock_of(
    baseline: KnockBaseline,
    *,
    mean: bool = False,
    together: bool = False,
    step: Callable[[], None] = lambda: None,
    shown: int | None = None,
) -> Knock:
    """What ablating each chosen head by itself changes of the answer, the most needed first, as `Knock`."""
    experiment, layers = baseline.experiment, baseline.layers
    outcomes = experiment.outcomes(interventions_of(layers), with_loss=shown is None)
    direct = {} if baseline.direct is None else baseline.direct.heads
    heads: list[KnockedHead] = []
    for layer, places in layers:
        for place in places:
            group, top_keys = layer.groups[place.head], baseline.top_keys.get(place, ())
            heads.append(KnockedHead(place, group, next(outcomes), top_keys, direct.get(place)))
        step()
    # Signed bits: the most negative helped most. Distances have no sign: the largest first.
    heads.sort(key=lambda head: head.outcome.effect * (1 if head.outcome.cosine_distance is None else -1))
    if shown is not None and len(experiment.rows) == len(experiment.tokens) and experiment.target is not None:
        again = experiment.outcomes([Intervention((head.place,)) for head in heads[:shown]], with_loss=True)
        heads[:shown] = [replace(head, outcome=outcome) for head, outcome in zip(heads[:shown], again, strict=True)]
    at_once = None
    if together:
        (at_once,) = experiment.outcomes([Intervention(tuple(head.place for head in heads))], with_loss=True)
    rows = tuple(experiment.tokens[row] for row in experiment.rows)
    return Knock(
        tuple(heads), experiment.target, rows, len(rows) == len(experiment.tokens), mean, experiment.noise_floor,
        experiment.run_mode, experiment.no_cache_reason, at_once, shown, baseline.no_direct_reason, experiment.vector,
        _hidden(experiment, heads[0]),
    )  # fmt: skip


def _hidden(experiment: Experiment, head: KnockedHead) -> HiddenKey | None:
    """The key that a head attends to most, masked in the row that chooses; None for the row's own."""
    rows = experiment.rows
    if experiment.target is None or len(rows) != 1 or head.place.stream != "self" or not head.top_keys:
        return None
    token, _ = head.top_keys[0]
    if token.index == rows[0]:
        return None
    outcomes = experiment.outcomes_from_cache([Intervention(hidden=(token.index,))])
    return None if outcomes is None else HiddenKey(head.place, token, outcomes[0].effect)
