"""attn knock: each head ablated, and its effect on the answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from attn_cli.call import Call, Look
from attn_cli.errors import InputError
from attn_cli.model.intervention import AttentionLayer, Experiment, HeadPlace, Outcome, ablate, hide, without_rounding
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice, head_name
from attn_cli.summaries.parts.text_parts import rows_before_generated
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.keys import OverallKeys
from attn_cli.summaries.sinks import expected_sinks
from attn_cli.text import counted, quoted

_ANSWERING = ("self", "text", "decoder", "cross")  # streams whose queries are rows of the stack that answers

SHAPE = Shape(
    "attn.knock/3",
    "Each head ablated in turn, and the change of the answer.",
    {
        "heads": (
            *("stream?", "layer", "head", "kv_head", "bits", "kl_bits", "loss_bits", "cosine_distance"),
            *("key", "key_token", "weight"),
        ),
        "answer": ("row", "id", "token"),
        "rows": ("row", "token"),
        "run": (*("probability", "generated", "vector", "everywhere", "mean", "run_mode", "no_cache_reason"), "noise"),
        "together": ("bits", "kl_bits", "loss_bits", "cosine_distance"),
        "hidden": ("layer", "head", "key", "key_token", "bits"),
    },
)
_LEAST = 0.1  # bits of an effect that is a finding


class Ablation(NamedTuple):
    """How heads are ablated, and what is compared."""

    rows: Sequence[int] | None = None  # None for those that choose the answer
    everywhere: bool = False
    mean: bool = False  # to the mean output over the other rows, not to 0
    together: bool = False  # all of them at once, too


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
    """Ablate each chosen head in turn: the change of log2 p of the answer; for encoders 1 - cosine of mean vectors."""
    rows, everywhere, mean, together = how
    prompt = source.read([text])[0] if isinstance(text, str) else text
    last = len(prompt.others.get("decoder", prompt.tokens)) - 1
    choosing = rows_before_generated(prompt) or (last if rows is None or everywhere else max(rows),)
    top_keys: dict[HeadPlace, dict[str, Any]] = {}  # but sinks, over the rows that choose the answer

    def visit(call: Call) -> None:
        answers = source.has_lm_head and call.place.stream in _ANSWERING
        sinks = expected_sinks(call).tolist()
        summary = reduce(call, OverallKeys(1 + len(sinks), rows=choosing if answers else None))
        for row in summary.parts[0].records(summary):
            key = {"key": row["key"], "key_token": row["key_token"], "weight": row["received_share"]}
            if row["key"] not in sinks:
                top_keys.setdefault(HeadPlace(call.place.layer, row["head"], call.place.stream), key)
        step()

    look = Look(selection, visit)
    experiment = source.experiment(prompt, rows, everywhere=everywhere, mean=mean, look=look)
    predicts = experiment.target is not None
    layers = _chosen_heads(experiment.layers, selection)
    if not experiment.visited:
        top_keys.clear()
        source.each([prompt], *look)
    outcomes = experiment.outcomes([ablate(place) for _, heads in layers for place in heads], with_loss=shown is None)
    found: list[tuple[HeadPlace, int, Outcome]] = []
    for layer, places in layers:
        found += [(place, layer.groups[place.head], next(outcomes)) for place in places]
        step()
    found.sort(key=lambda head: head[2].effect * (1 if predicts else -1))  # the most negative bits helped most
    in_all = len(experiment.rows) == len(experiment.tokens)
    if shown is not None and in_all and predicts:
        again = experiment.outcomes([ablate(place) for place, _, _ in found[:shown]], with_loss=True)
        found[:shown] = [(place, group, next(again)) for place, group, _ in found[:shown]]
    together_change = [ablate(*(place for place, _, _ in found))] if together else []
    at_once = list(experiment.outcomes(together_change, with_loss=True))
    first = found[0][0]
    hidden = _hidden(experiment, first, top_keys.get(first, {}))
    noise = experiment.noise  # of all runs
    has_stacks = any(place.stream != "self" for place, _, _ in found)
    heads = []
    for place, group, outcome in found:
        named = ({"stream": place.stream} if has_stacks else {}) | {"layer": place.layer, "head": place.head}
        most = top_keys.get(place, dict.fromkeys(("key", "key_token", "weight")))
        heads.append(named | {"kv_head": group} | _numbers(outcome, noise) | most)
    answer, run = baseline(experiment)
    run |= {"everywhere": in_all, "mean": mean}
    tables = {
        "heads": Table.of(heads),
        "answer": answer,
        "rows": Table.of({"row": row, "token": experiment.tokens[row].text} for row in experiment.rows),
        "run": Table.of([run]),
        "together": Table.of(_numbers(outcome, noise) for outcome in at_once),
        "hidden": Table.of(hidden),
    }
    choice, last = ("-H", head_choice(heads[0])), experiment.rows[-1]
    has_row = first.stream == "self" and not in_all and last > 0  # row 0 sees itself alone
    onwards = Next("top", None, (*choice, "-t", str(last))) if has_row else Next("matrix", None, choice)
    return Answer(SHAPE, tuple(_findings(tables, experiment, some=selection != ALL)), tables, shown=shown, next=onwards)


def baseline(experiment: Experiment | None) -> tuple[Table, dict[str, Any]]:
    """The tokens of the answer, and how it was run: columns of the tables `answer` and `run`; without one, of none."""
    run = dict.fromkeys(("probability", "generated", "vector", "run_mode", "no_cache_reason", "noise"))
    if experiment is None:
        return Table({}), run | {"no_cache_reason": ""}
    run |= {name: getattr(experiment, name) for name in ("run_mode", "no_cache_reason", "noise")}
    target = experiment.target
    if target is None:
        return Table({}), run | {"vector": "mean"}
    rows = zip(target.rows, target.tokens, strict=True)
    answer = Table.of({"row": row, "id": token.id, "token": token.text} for row, token in rows)
    return answer, run | {"probability": target.probability, "generated": target.generated}


def _chosen_heads(
    layers: Sequence[AttentionLayer], selection: Selection
) -> list[tuple[AttentionLayer, list[HeadPlace]]]:
    """The chosen heads by layer, in the order of the forward pass."""
    if layers:
        selection.check_layers([(layer.stream, layer.layer) for layer in layers])
    chosen = [
        (layer, [layer.heads[head] for head in selection.pick_heads(len(layer.groups), layer.layer, layer.blocks)])
        for layer in layers
        if selection.has_layer(layer.layer, layer.blocks, layer.stream)
    ]
    if not any(heads for _, heads in chosen):
        raise InputError("no head of the model is among those chosen", "attn layers lists layers and heads")
    return chosen


def _numbers(outcome: Outcome, noise: float) -> dict[str, float | None]:
    main = "bits" if outcome.cosine_distance is None else "cosine_distance"
    return asdict(outcome) | {main: without_rounding(outcome.effect, noise)}


def _hidden(experiment: Experiment, head: HeadPlace, most: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The effect of hiding, from all heads, the key that a head attends to most; none for the row's own."""
    rows = experiment.rows
    if experiment.target is None or len(rows) != 1 or head.stream != "self" or most.get("key") in (None, rows[0]):
        return []
    named = {"layer": head.layer, "head": head.head, "key": most["key"], "key_token": most["key_token"]}
    return [named | {"bits": of.effect} for of in experiment.outcomes([hide([most["key"]])], from_cache=True)]


def _findings(tables: Mapping[str, Table], experiment: Experiment, *, some: bool) -> Iterator[str]:
    """Sentences: the head that the answer needs most, what it attends to, and the heads that hold the answer back."""
    heads, together, hidden = tables["heads"], tables["together"], tables["hidden"]
    effect = "cosine_distance" if experiment.target is None else "bits"
    if together:
        total = sum(head[effect] for head in heads)
        yield f"{counted(len(heads), 'head')} at once: {together[0][effect]:+.2f}, one by one {total:+.2f} in all"
        return
    first, name, alone = heads[0], head_name(heads[0]), some and len(heads) == 1
    among = f"of the {len(heads)} chosen heads " if some and not alone else ""  # others may cost it more
    if experiment.target is None:
        yield f"{among}head {name} moves the mean vector{' most' * (not alone)}: 1 - cosine {first[effect]:.4f}"
        return
    what = "the generated text" if experiment.target.generated else quoted(experiment.target.tokens[0].text)
    if alone:
        yield f"{what} without head {name}: {first['bits']:+.2f} bits"
    elif first["bits"] > -_LEAST:
        yield f"{what} needs no single head: none {among}costs it {_LEAST} bits"
    else:
        yield f"{among}{what} needs head {name} most: {first['bits']:+.2f} bits without it"
    for cell in hidden if first["bits"] <= -_LEAST else ():
        key = f"{quoted(cell['key_token'])} {cell['key']}"
        yield f"{name} attends to {key}: {cell['bits']:+.2f} bits with this word hidden from all heads"
    against = [head for head in heads[:-3:-1] if head["bits"] >= _LEAST]
    if against:
        named = " and ".join(f"{head_name(head)} ({head['bits']:+.2f})" for head in against)
        yield f"{named} hold{'s' * (len(against) == 1)} it back"
