"""attn parts: how much some rows attend to each part of a text, and what the answer loses with the part hidden."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.call import Call, Look, Place
from attn_cli.errors import InputError, LoadError
from attn_cli.kernel.stats.wanted import ColumnSums, Wanted
from attn_cli.model.intervention import Change, Experiment, hide, without_rounding
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.answers.knock import baseline
from attn_cli.summaries.parts.text_parts import TextPart, question_of, rows_before_generated, rows_of_last
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import SinkRows, expected_sinks
from attn_cli.summaries.text_sinks import sinks_by_heads
from attn_cli.text import cut_after_word, quoted, visible

SHAPE = Shape(
    "attn.parts/3",
    "The parts of a text that some rows attend to, and that the answer needed.",
    {
        "parts": (
            *("part", "name", "text", "start", "end", "tokens", "share", "non_sink_share", "hidden_bits"),
            *("hidden_cosine_distance", "kind", "key", "is_context", "is_sink"),
        ),
        "answer": ("row", "id", "token"),
        "rows": ("row", "token"),
        "sinks": ("key", "key_token", "head_share", "weight"),
        "together": ("name", "hidden_bits"),
        "run": (
            *("cut", "stream", "queries_from", "probability", "generated", "vector", "everywhere", "run_mode"),
            *("no_cache_reason", "noise", "obstacle", "learned_sink"),
        ),
    },
)
_NEEDED_BITS = 1.0  # an answer needs what halves its probability when it is hidden
_SHOWN, _NAMED = 12, 3  # parts on a screen; sinks in sentences
_LONGEST = 48  # characters of an answer in a sentence
_UNITS = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"))
_POWER = 100  # bits from which on a factor is written as a power


class TextReading:
    """Adds up, over attention calls, what the ascending query rows `rows` of a text give to its m keys."""

    def __init__(self, rows: Sequence[int], m: int) -> None:
        self.rows = tuple(rows)
        self.heads, self.has_learned_sink = 0, False
        self.received, self.sink_heads = np.zeros((2, m))
        self.expected: set[int] = set()

    def add(self, call: Call) -> None:
        """Take in one attention call whose keys are the text's tokens."""
        rows, sink_rows = ColumnSums(self.rows), SinkRows(sight_of(call.rule.mask, call.n, call.m, call.like))
        stats = call.row_stats(Wanted(column_sums=(rows, ColumnSums(), sink_rows.left_out)))
        is_sink = sink_rows.sinks(stats.column_sums[ColumnSums()], stats.column_sums[sink_rows.left_out])
        self.heads += call.h
        self.received += stats.column_sums[rows].sum(axis=0) / max(1, len(self.rows))
        self.sink_heads += is_sink.sum(axis=0)
        self.expected.update(expected_sinks(call).tolist())
        self.has_learned_sink |= bool(call.rule.describe()["sink"])

    def sinks(self, queries: int) -> list[int]:
        """The sinks of the text, those with most weight first."""
        found = {*sinks_by_heads(self.sink_heads, self.heads, queries, self.expected).tolist(), *self.expected}
        return sorted(found, key=lambda key: -self.received[key])

    @property
    def learned_sink(self) -> float:
        """The mean weight that the rows give to a learned sink; 0 without one."""
        return max(0.0, 1 - float(self.received.sum()) / self.heads) if self.has_learned_sink else 0.0


def read_parts(
    source: Source,
    prompt: Prompt,
    parts: Sequence[TextPart],
    *,
    rows: Sequence[int] | None = None,
    everywhere: bool = False,
    selection: Selection = ALL,
    cut: str = "parts",
    step: Callable[[Place | None], None] = lambda place: None,
) -> Answer:
    """The attention of some rows to the parts of a prompt, and of a model that predicts the effect of hiding each."""
    queries_from, reading = ("picked", tuple(rows)) if rows is not None else _rows(source, prompt, parts)
    crosses, queries = "decoder" in prompt.others, prompt.others.get("decoder", prompt.tokens)
    read = TextReading(reading, len(prompt.tokens))

    def visit(call: Call) -> None:
        if call.keys == prompt.tokens and (call.place.stream == "cross" if crosses else call.queries == prompt.tokens):
            read.add(call)
        step(call.place)

    experiment, obstacle = _experiment(source, prompt, parts, reading, Look(selection, visit), everywhere=everywhere)
    if experiment is None or not experiment.visited:
        read = TextReading(reading, len(prompt.tokens))
        source.each([prompt], selection, visit)
    if not read.heads:
        raise InputError("no attention reads the text's tokens here", "attn layers shows what the model's layers read")
    sinks = read.sinks(len(queries))
    asks = () if queries_from == "all" else question_of(prompt, parts)
    given = {at for at, part in enumerate(parts) if part.kind == "given" and not set(part.tokens) <= set(sinks)}
    readers = set() if queries_from == "all" else set(reading)
    context = [at for at in sorted(given.difference(asks)) if readers.isdisjoint(parts[at].tokens)]
    effects, together = dict[int, float](), list[dict[str, Any]]()
    if experiment is not None:
        try:
            effects, together = _hidden(
                experiment, prompt, parts, context, sinks, selection, everywhere=everywhere, step=step
            )
        except LoadError as error:
            experiment, obstacle = None, error.message
    answer, run = baseline(experiment)
    run |= {"cut": cut, "stream": "cross" if crosses else "self", "queries_from": queries_from}
    run |= {"everywhere": everywhere, "obstacle": obstacle, "learned_sink": read.learned_sink}
    measure = "hidden_bits" if answer else "hidden_cosine_distance"
    listed = list(_part_rows(prompt, parts, {measure: effects}, read, sinks, context))
    sign = 1 if answer else -1  # the most negative bits, but the largest distance first
    listed.sort(key=lambda row: (not row["is_context"], sign * (row[measure] or 0.0), -row["non_sink_share"]))
    tables = {
        "parts": Table.of(listed),
        "answer": answer,
        "rows": Table.of({"row": row, "token": queries[row].text} for row in reading),
        "sinks": Table.of(
            {
                "key": key,
                "key_token": prompt.tokens[key].text,
                "head_share": float(read.sink_heads[key] / read.heads),
                "weight": float(read.received[key] / read.heads),
            }
            for key in sinks
        ),
        "together": Table.of(together),
        "run": Table.of([run]),
    }
    onwards = Next("knock" if answer else "inspect")
    return Answer(SHAPE, tuple(_findings(prompt, tables)), tables, shown=_SHOWN, next=onwards)


def _rows(source: Source, prompt: Prompt, parts: Sequence[TextPart]) -> tuple[str, tuple[int, ...]]:
    """The rows that read, and which they are: those that choose what was generated, all, or those of the last part."""
    if chosen := rows_before_generated(prompt):
        return "generated", chosen
    makes_vector = isinstance(source, Predicting) and not source.has_lm_head  # of all rows of an encoder
    if "decoder" in prompt.others or makes_vector:
        return "all", tuple(token.index for token in prompt.others.get("decoder", prompt.tokens))
    return "last part", rows_of_last(prompt, parts)


def _experiment(
    source: Source, prompt: Prompt, parts: Sequence[TextPart], rows: tuple[int, ...], look: Look, *, everywhere: bool
) -> tuple[Experiment | None, str]:
    """The model's baseline, visited; None, with the reason, where no part can be hidden afterwards."""
    if not isinstance(source, Predicting):
        return None, ""
    earliest, of_encoder = None, everywhere and "decoder" in prompt.others  # which attends from all rows
    if everywhere and not of_encoder:
        after = [_rows_after(part, len(prompt.tokens))[:1] for part in parts]
        earliest = min((row for rows in after for row in rows), default=None)
    try:
        return source.experiment(prompt, rows, everywhere=of_encoder, earliest=earliest, look=look), ""
    except LoadError as error:
        return None, error.message


def _hidden(
    experiment: Experiment,
    prompt: Prompt,
    parts: Sequence[TextPart],
    context: Sequence[int],
    sinks: Sequence[int],
    selection: Selection,
    *,
    everywhere: bool,
    step: Callable[[Place | None], None],
) -> tuple[dict[int, float], list[dict[str, Any]]]:
    """The effect of hiding each part; then that of hiding all of the context, or two parts that replace each other."""
    of_rows = experiment.target is not None and "decoder" not in prompt.others  # an encoder's parts: from all rows
    after, kept = everywhere and of_rows, set(sinks) if of_rows else set()
    effects = {at: 0.0 for at, part in enumerate(parts) if part.kind != "generated"}
    rows = {at: _rows_after(parts[at], len(prompt.tokens)) for at in effects if parts[at].tokens}
    order = sorted((at for at in rows if not after or rows[at]), key=lambda at: rows[at][0] if after else 0)

    def without(numbers: Sequence[int], rows: tuple[int, ...] | None = None) -> Change:
        tokens = tuple(token for at in numbers for token in parts[at].tokens)
        return hide(set(tokens) - kept or tokens, rows, selection)

    changes = [without([at], rows[at] if after else None) for at in order]
    asks = experiment.target is not None and not everywhere and len(context) > 1
    outcomes = experiment.outcomes([*changes, *([without(context)] if asks else [])])
    for at, outcome in zip(order, outcomes, strict=False):
        effects[at] = outcome.effect
        step(None)
    of_context = (next(outcomes).bits or 0.0) if asks else 0.0
    effects = {at: without_rounding(effect, experiment.noise) for at, effect in effects.items()}
    together = [{"name": "all before the question", "hidden_bits": of_context}] if asks else []
    pair = sorted(sorted(context, key=lambda at: effects[at])[:2])
    if of_context <= -_NEEDED_BITS and sum(min(effects[at], 0.0) for at in context) > of_context / 2:
        (of_pair,) = experiment.outcomes([without(pair)])
        if (of_pair.bits or 0.0) <= of_context / 2:
            names = (part_name({"name": parts[at].name, "text": parts[at].text(prompt.text)}) for at in pair)
            together.append({"name": " or ".join(names), "hidden_bits": of_pair.bits})
    return effects, together


def _rows_after(part: TextPart, n: int) -> tuple[int, ...]:
    """The rows of n from the part's first token on that are none of its own tokens; () for a part of no tokens."""
    own = set(part.tokens)
    return tuple(row for row in range(part.tokens[0], n) if row not in own) if own else ()


def _part_rows(
    prompt: Prompt,
    parts: Sequence[TextPart],
    effects: Mapping[str, Mapping[int, float]],
    read: TextReading,
    sinks: Sequence[int],
    context: Sequence[int],
) -> Iterator[dict[str, Any]]:
    past = read.received.copy()
    past[list(sinks)] = 0
    rest = max(float(past.sum()), np.finfo(float).tiny)
    for at, part in enumerate(parts):
        places = list(part.tokens)
        yield {
            "part": at,
            "name": part.name,
            "text": part.text(prompt.text),
            "start": part.spans[0][0] if part.spans else None,
            "end": part.spans[-1][1] if part.spans else None,
            "tokens": len(places),
            "share": float(read.received[places].sum()) / read.heads,
            "non_sink_share": float(past[places].sum()) / rest,
            **{name: effects.get(name, {}).get(at) for name in ("hidden_bits", "hidden_cosine_distance")},
            "kind": part.kind,
            "key": places[0] if places else None,
            "is_context": at in context,
            "is_sink": 0 < len(places) == len(set(places) & set(sinks)),
        }


def _findings(prompt: Prompt, tables: Mapping[str, Table]) -> Iterator[str]:
    """Sentences: the part that the answer needs most, and the sink."""
    run, rows = tables["run"][0], list(tables["parts"])
    first = next((row for row in rows if row["is_context"]), None)
    if tables["answer"]:
        yield _needs(prompt, tables)
    elif first is not None and run["vector"]:
        yield f"{part_name(first)} moves the mean vector most: 1 - cosine {first['hidden_cosine_distance']:.4f}"
    elif first is not None:
        yield f"{part_name(first)} gets {first['non_sink_share']:.0%} of the attention that no sink takes, the most"
    for sink in tables["sinks"][:_NAMED]:
        token = prompt.tokens[sink["key"]]
        bits = next((row["hidden_bits"] or 0.0 for row in rows if row["is_sink"] and row["key"] == token.index), 0.0)
        does = f": hiding it breaks the model (2^{-bits:.1f})" if bits <= -_NEEDED_BITS else ""
        does = does or f" gets {sink['weight']:.0%} of the attention"
        yield f"sink {visible(token.text) if token.special else quoted(token.text)} {token.index}{does}"


def _needs(prompt: Prompt, tables: Mapping[str, Table]) -> str:
    context, together = [row for row in tables["parts"] if row["is_context"]], tables["together"]
    answer = "".join(tables["answer"].columns["token"])
    if tables["run"][0]["generated"] and prompt.generated is not None:
        answer = cut_after_word(prompt.generated.quote, _LONGEST)
    if len(together) > 1:
        return f"{quoted(answer)} needs {together[1]['name']}: with both hidden {_times(together[1]['hidden_bits'])}"
    if context and context[0]["hidden_bits"] <= -_NEEDED_BITS:
        return f"{quoted(answer)} needs {part_name(context[0])}: with it hidden {_times(context[0]['hidden_bits'])}"
    if not together:
        return f"{quoted(answer)} needs no part before the question"
    if together[0]["hidden_bits"] > -_NEEDED_BITS:
        return f"{quoted(answer)} needs none of the parts: the question or the model's memory holds it"
    return f"{quoted(answer)} needs several parts: with all of them hidden {_times(together[0]['hidden_bits'])}"


def part_name(row: Mapping[str, Any]) -> str:
    """How a sentence names a row of parts: a word by its text, others by their names."""
    return quoted(row["text"].strip()) if row["name"].startswith("word ") else visible(row["name"])


def _times(bits: float) -> str:
    """The factor by which a change of log2 p makes something less likely.

    >>> _times(-12.2), _times(-1.5), _times(-21.5)
    ('4,700 times less likely', '2.8 times less likely', '3 million times less likely')
    """
    if bits <= -_POWER:
        return f"2^{-bits:.0f} times less likely"
    times = 2.0**-bits
    unit, name = next((pair for pair in _UNITS if times >= pair[0]), (1.0, ""))
    return f"{float(f'{times / unit:.2g}'):,g}{name} times less likely"
