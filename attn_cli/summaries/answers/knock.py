"""attn knock: each head ablated, and its effect on the answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.call import Call, Look
from attn_cli.errors import InputError, LoadError
from attn_cli.model.intervention import (
    AttentionLayer,
    Experiment,
    HeadPlace,
    Outcome,
    ablate,
    hide,
    without_rounding,
)
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.answers.baseline import baseline
from attn_cli.summaries.parts.text_parts import rows_before_generated
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.keys import Overall, OverallKeys
from attn_cli.text import counted, quoted

_TOP_KEYS = 3  # keys that are noted for a head
_ANSWERING = ("self", "text", "decoder", "cross")  # streams whose queries are rows of the stack that answers

SHAPE = Shape(
    "attn.knock/3",
    "Each head ablated in turn, and the change of the answer.",
    {
        "heads": (
            *("stream?", "layer", "head", "kv_head", "bits", "kl_bits", "loss_bits", "cosine_distance"),
            *("direct_logit", "key", "key_token", "weight"),
        ),
        "keys": ("stream?", "layer", "head", "key", "key_token", "weight"),
        "answer": ("row", "id", "token"),
        "rows": ("row", "token"),
        "run": (
            *("probability", "generated", "vector", "everywhere", "mean", "run_mode", "no_cache_reason"),
            *("no_direct_reason", "noise"),
        ),
        "together": ("bits", "kl_bits", "loss_bits", "cosine_distance"),
        "hidden": ("layer", "head", "key", "key_token", "bits"),
    },
)
_LEAST = 0.1  # bits of an effect that is a finding


@dataclass(frozen=True)
class Ablation:
    """How heads are ablated, and what is compared.

    rows        the rows in which heads are ablated; None for those that choose the answer
    mean        ablate a head to its mean output over the other rows, not to 0
    vector      which vector of an encoder is compared: the mean of all tokens, or the first, such as that of [CLS]
    """

    rows: Sequence[int] | None = None
    everywhere: bool = False
    mean: bool = False
    together: bool = False
    vector: Literal["mean", "first"] = "mean"


AT_THE_ANSWER = Ablation()


def knock(
    source: Predicting,
    text: str | Prompt,
    how: Ablation = AT_THE_ANSWER,
    *,
    selection: Selection = ALL,
    shown: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> Answer:
    """Ablate each chosen head of a model in turn, and compare its answer with the baseline's, as tables of `SHAPE`.

    source     a model opened with `open_source(model, predicts=True)`
    shown      how many heads a screen shows, for which alone losses are measured; None for all

    Effects are in bits: log2 p(answer) without the head, less log2 p(answer). The answer is the likeliest next token of
    the last row, or what was generated. Encoders: 1 - cosine of the vectors with and without the head.
    Raises InputError for a head or row that isn't there, LoadError for a model in which heads can't be ablated.
    """
    prompt = source.read([text])[0] if isinstance(text, str) else text
    last = len(prompt.others.get("decoder", prompt.tokens)) - 1
    choosing = rows_before_generated(prompt) or (last if how.rows is None or how.everywhere else max(how.rows),)
    top_keys: dict[HeadPlace, tuple[tuple[Token, float], ...]] = {}  # over the rows that choose the answer

    def visit(call: Call) -> None:
        answers = source.has_lm_head and call.place.stream in _ANSWERING
        summary = reduce(call, OverallKeys(_TOP_KEYS, rows=choosing if answers else None))
        part = summary.part(Overall)
        assert part is not None
        for at, head in enumerate(summary.place.heads):
            pairs = zip(part.keys[at].tolist(), part.weights[at].tolist(), strict=True)
            keys = tuple((summary.keys[key], float(weight)) for key, weight in pairs if key >= 0)
            top_keys.setdefault(HeadPlace(call.place.layer, head, call.place.stream), keys)
        step()

    look = Look(selection, visit)
    experiment = source.experiment(prompt, how.rows, everywhere=how.everywhere, mean=how.mean, look=look)
    experiment.vector, target = how.vector, experiment.target
    layers = _chosen_heads(experiment.layers, selection)
    if not experiment.visited:
        top_keys.clear()
        source.each([prompt], *look)
    parts, no_direct_reason = None, ""
    try:
        parts = None if target is None else source.logit_parts(prompt, experiment)
    except LoadError as error:
        no_direct_reason = error.message
    changes = [ablate(head) for _, heads in layers for head in heads]
    outcomes = experiment.outcomes(changes, with_loss=shown is None)
    found: list[tuple[HeadPlace, int, Outcome]] = []
    for layer, places in layers:
        found += [(place, layer.groups[place.head], next(outcomes)) for place in places]
        step()
    # Signed bits: the most negative helped most. Distances have no sign: the largest first.
    found.sort(key=lambda head: head[2].effect * (1 if head[2].cosine_distance is None else -1))
    everywhere = len(experiment.rows) == len(experiment.tokens)
    if shown is not None and everywhere and target is not None:
        again = experiment.outcomes([ablate(place) for place, _, _ in found[:shown]], with_loss=True)
        found[:shown] = [(place, group, next(again)) for place, group, _ in found[:shown]]
    at_once = None
    if how.together:
        (at_once,) = experiment.outcomes([ablate(*(place for place, _, _ in found))], with_loss=True)
    first = found[0][0]
    hidden = _hidden(experiment, first, top_keys.get(first, ()))
    noise, has_stacks = experiment.noise, any(place.stream != "self" for place, _, _ in found)
    direct = {} if parts is None else parts.heads
    heads, keys = [], []
    for place, group, outcome in found:
        named = ({"stream": place.stream} if has_stacks else {}) | {"layer": place.layer, "head": place.head}
        read = [named | _key(*key) for key in top_keys.get(place, ())]
        keys += read
        numbers = _numbers(outcome, noise) | {"direct_logit": direct.get(place)}
        heads.append(named | {"kv_head": group} | numbers | (read[0] if read else _key()))
    answer, run = baseline(experiment)
    run |= {"everywhere": everywhere, "mean": how.mean, "no_direct_reason": no_direct_reason}
    tables = {
        "heads": Table.of(heads),
        "keys": Table.of(keys),
        "answer": answer,
        "rows": Table.of({"row": row, "token": experiment.tokens[row].text} for row in experiment.rows),
        "run": Table.of([run]),
        "together": Table.of([] if at_once is None else [_numbers(at_once, noise)]),
        "hidden": Table.of([] if hidden is None else [hidden]),
    }
    choice = ("-H", f"{'' if first.stream == 'self' else f'{first.stream}:'}{first.layer}.{first.head}")
    last = experiment.rows[-1]
    has_row = first.stream == "self" and not everywhere and last > 0  # row 0 sees itself alone
    onwards = Next("top", None, (*choice, "-t", str(last))) if has_row else Next("matrix", None, choice)
    return Answer(SHAPE, tuple(_findings(tables, experiment)), tables, shown=shown, next=onwards)


def _chosen_heads(
    layers: Sequence[AttentionLayer], selection: Selection
) -> list[tuple[AttentionLayer, Sequence[HeadPlace]]]:
    """The chosen heads by layer, in the order of the forward pass."""
    if layers:
        selection.check_layers([(layer.stream, layer.layer) for layer in layers])
    chosen: list[tuple[AttentionLayer, Sequence[HeadPlace]]] = []
    for layer in layers:
        if selection.has_layer(layer.layer, layer.blocks, layer.stream):
            heads = selection.pick_heads(len(layer.groups), layer.layer, layer.blocks)
            chosen.append((layer, [layer.heads[head] for head in heads]))
    if not any(heads for _, heads in chosen):
        raise InputError("no head of the model is among those chosen", "attn layers lists layers and heads")
    return chosen


def head_name(row: Mapping[str, Any]) -> str:
    """The name of the head of a table's row: 18.6, or cross 1.1."""
    stream = row.get("stream") or "self"
    return f"{'' if stream == 'self' else f'{stream} '}{row['layer']}.{row['head']}"


def _key(token: Token | None = None, weight: float | None = None) -> dict[str, Any]:
    return {"key": token and token.index, "key_token": token and token.text, "weight": weight}


def _numbers(outcome: Outcome, noise: float) -> dict[str, float | None]:
    names = ("bits", "kl_bits", "loss_bits", "cosine_distance")
    numbers: dict[str, float | None] = {name: getattr(outcome, name) for name in names}
    main = "bits" if outcome.cosine_distance is None else "cosine_distance"
    return numbers | {main: without_rounding(outcome.effect, noise)}


def _hidden(experiment: Experiment, place: HeadPlace, keys: Sequence[tuple[Token, float]]) -> dict[str, Any] | None:
    """The effect of hiding, from all heads, the key that a head attends to most; None for the row's own."""
    rows = experiment.rows
    if experiment.target is None or len(rows) != 1 or place.stream != "self" or not keys:
        return None
    token, _ = keys[0]
    outcomes = list(experiment.outcomes([hide([token.index])], from_cache=True)) if token.index != rows[0] else []
    if not outcomes:
        return None
    key = {"key": token.index, "key_token": token.text, "bits": outcomes[0].effect}
    return {"layer": place.layer, "head": place.head} | key


def _findings(tables: Mapping[str, Table], experiment: Experiment) -> Iterator[str]:
    """Sentences: the head that the answer needs most, what it attends to, and the heads that hold the answer back."""
    heads, together, hidden = tables["heads"], tables["together"], tables["hidden"]
    effect = "cosine_distance" if experiment.target is None else "bits"
    if together:
        total = sum(head[effect] for head in heads)
        yield f"{counted(len(heads), 'head')} at once: {together[0][effect]:+.2f}, one by one {total:+.2f} in all"
        return
    first = heads[0]
    if experiment.target is None:
        what = "mean vector" if experiment.vector == "mean" else "first token's vector"
        yield f"head {head_name(first)} moves the {what} most: 1 - cosine {first[effect]:.4f}"
        return
    generated = experiment.target.generated
    what = "the generated text" if generated else quoted(experiment.target.tokens[0].text)
    if first["bits"] > -_LEAST:
        yield f"{what} needs no single head: none costs it {_LEAST} bits"
    else:
        yield f"{what} needs head {head_name(first)} most: {first['bits']:+.2f} bits without it"
        if hidden:
            key = f"{quoted(hidden[0]['key_token'])} {hidden[0]['key']}"
            yield f"{head_name(first)} attends to {key}: {hidden[0]['bits']:+.2f} bits with that hidden from all heads"
    if against := [f"{head_name(head)} ({head['bits']:+.2f})" for head in heads[:-3:-1] if head["bits"] >= _LEAST]:
        yield f"{' and '.join(against)} hold{'s' * (len(against) == 1)} it back"
