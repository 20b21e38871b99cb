"""The answers that are measured call by call (inspect, heads, top, matrix, steps) as tables of their parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attn_cli.fields import COUNT, FLAG, NESTED, NUMBER, TEXT, each, or_none
from attn_cli.summaries.answer import Answer, Shape, Table
from attn_cli.summaries.columns import Column
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds.reducer import HEAD_COLUMNS, HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import any_judged, finding
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.story import finding as story_finding
from attn_cli.summaries.told.word_reads import strongest_link

_HEAD = ("batch?", "stream?", "module?", "call?", "layer", "head")
_CELL = (*_HEAD, "query", "query_token", "key", "key_token")
_SHARES = ("value_share?", "output_share?")
_MAPS = ("weights?", "scores?", *_SHARES)
_LAYERS = (
    *("batch?", "layer", "name", "stream", "call", "way", "heads", "kv_heads"),
    *("scale", "softcap", "bias", "mask", "sink", "softmax?"),
)
_HEADS = (*_HEAD, "kv_head", *(each.name for each in STATISTICS), "masked_rows", "visible_weight?")
_MATRICES = (
    *("layer", "stream", "call", "heads", "queries", "block", "pooling", "reason?", "keys?", "hidden_keys?"),
    *("masked_cells?", "nonfinite_cells", *_MAPS),
)
_MAP = each(each(each(NUMBER)))
_COLUMNS = {
    "heads": Column(each({"type": ["integer", "string"]}), "the heads, by the model's own numbers, or mean"),
    "kv_heads": Column(each(COUNT), "for every one of them the key/value head that it reads"),
    "head": Column({"oneOf": [COUNT, {"const": "mean"}]}, 'the head\'s number, or "mean" for a mean over heads'),
    "weight": Column(NUMBER, "after the softmax"),
    "softmax": Column(FLAG, "false: the scores are the weights, not normalised"),
    "value_share": Column(NUMBER, "with --by value: weight times value norm, as a share of the row's sum"),
    "output_share": Column(NUMBER, "with --by output: with the norm of the value after W_O, likewise"),
    "rollout_share": Column(NUMBER, "with --by rollout: what reaches the query along all paths up to the layer"),
    "received_share": Column(NUMBER, "mean weight over all queries, or over those that --token picks"),
}
_OF_MAPS = _COLUMNS | {
    "queries": Column(each(COUNT), "the query behind every row, more than there are rows where rows were pooled"),
    "block": Column(each(COUNT, count=2), "[rows, keys] that one cell stands for; [1, 1] if nothing was pooled"),
    "pooling": Column(or_none(TEXT), "how a block became a cell: max, or farthest from 0, null if nothing was pooled"),
    "reason": Column(TEXT, "why this head was chosen, missing where the user chose"),
    "keys": Column(each(COUNT), "the key behind every column, where some have none, more than columns where pooled"),
    "hidden_keys": Column(each(COUNT), "the keys that are left out: their columns are 0"),
    "weights": Column(_MAP, "[heads][queries][keys], after the softmax"),
    "scores": Column(_MAP, "[heads][queries][keys], scaled and masked, null where blocked, missing between words"),
    "value_share": Column(_MAP, "[heads][queries][keys], with --by value"),
    "output_share": Column(_MAP, "[heads][queries][keys], with --by output"),
    "rollout_share": Column(_MAP, "[heads][queries][keys], with --by rollout"),
}


def _shape(
    id: str, meaning: str, tables: Mapping[str, tuple[str, ...]], own: Mapping[str, Column], **more: Any
) -> Shape:
    return Shape(id, meaning, {**tables, "layers": _LAYERS}, own=own, **more)


SHAPES = {
    "inspect": _shape(
        "attn.inspect/4",
        "The overview of a text; its matrix, that of the head in the story, is pooled to 64 x 64 at most.",
        {
            "heads": _HEADS,
            "kinds": (*_HEAD[:4], *HEAD_COLUMNS),
            "received": (*_HEAD, "key", "key_token", "received_share"),
            "matrices": _MATRICES,
            "answer": ("answer", "generated", "probability", "rows", "cut", "noise", "obstacle"),
            "next": ("token", "id", "probability"),
            "needs": ("name", "text", "key", "tokens", "bits", "layer?", "head?", "weight?"),
            "brought_by": ("stream", "layer", "head", "bits", "key", "key_token", "weight"),
            "reads": (*_CELL[6:], "share", "stream", "layer", "head", "weight"),
        },
        {
            **_OF_MAPS,
            "rows": Column(each(COUNT), "the rows that decide"),
            "answer": Column(TEXT, "the likeliest next token, or what was generated"),
            "share": Column(NUMBER, "of what a word reads, weight times value length, mean over layers"),
        },
    ),
    "matrix": _shape(
        "attn.matrix/3",
        "Weights and scores of the chosen layers and heads.",
        {"cells": (*_CELL, "score", "weight", *_SHARES), "matrices": _MATRICES},
        _OF_MAPS,
        rows_alone=True,
    ),
    "top": _shape(
        "attn.top/3",
        "The keys that each query attends to most.",
        {
            "top": (*_HEAD, "query", "query_token", "rank", "key", "key_token", "score", "weight", *_SHARES),
            "mean": ("key", "key_token", "share", "weight", "is_sink"),
        },
        _COLUMNS | {"share": Column(NUMBER, "of what the row that decides reads, weight times value length")},
    ),
    "overall": _shape(
        "attn.overall/3",
        "The keys that many queries together attend to most.",
        {"overall": (*_HEAD, "rank", "key", "key_token", "received_share", *_SHARES)},
        _COLUMNS,
    ),
    "heads": _shape("attn.heads/3", "Statistics of each head.", {"heads": _HEADS}, _COLUMNS),
    "steps": _shape(
        "attn.steps/4",
        "Every array from the embeddings to the output, in order.",
        {
            "cells": (*_HEAD[:4], "step", "stage", "head", "row", "column", "value"),
            "stages": ("batch?", "layer", "step", "stage", "formula", "axes", "shape", "queries", "values"),
        },
        _COLUMNS
        | {
            "step": Column(COUNT, "its place in the walk, from 1"),
            "stage": Column(TEXT, "x, q, k, v, scores, scaled, largest, shifted, exp, sum, weights, output, ..."),
            "formula": Column(TEXT, "how it came of the one before, in words"),
            "axes": Column(each(TEXT), "what its axes are"),
            "shape": Column(each(COUNT), "how long they are"),
            "queries": Column(each(COUNT), "the query behind every row"),
            "values": Column(NESTED, "the numbers, nested along the axes, null where masked"),
            "column": Column(COUNT, "a column of the array"),
            "value": Column(NUMBER, "the number there"),
        },
        rows_alone=True,
    ),
}


def answer_of(report: Report) -> Answer:
    """The answer of a report: its own, or that of its calls."""
    if report.answer is not None:
        return report.answer
    shape = SHAPES[report.command]
    has = {name for summary in report.summaries for part in summary.parts for name in part.tables(summary)}
    tables: dict[str, Table] = {name: Table(partial(_rows, report, name)) for name in shape.tables if name in has}
    if report.story is not None:
        story = report.story
        answer = {name: value for name, value in story.items() if name not in ("next", "words", "heads")}
        told = {"answer": [answer], "next": story["next"], "needs": story["words"], "brought_by": story["heads"]}
        tables |= {name: Table(partial(list, rows)) for name, rows in told.items()}
    if report.reads is not None:
        each = ((word, key) for word in report.reads for key in (word["own"], *word["sources"]))
        tables["reads"] = Table.of(
            [{name: word[name] for name in ("query", "query_token")} | key for word, key in each]
        )
    tables["layers"] = Table.of(
        {name: getattr(summary.place, name) for name in ("layer", "name", "stream", "call", "way")}
        | {"heads": [*summary.place.heads], "kv_heads": [*summary.place.groups], **summary.rule}
        for summary in report.summaries
    )
    return Answer(shape, tuple(_findings(report)), tables)


def _rows(report: Report, name: str) -> Iterable[dict[str, Any]]:
    rows = (
        ({"batch": summary.place.text} if report.batch else {}) | lead(report.summaries, summary) | row
        for summary in report.summaries
        for part in summary.parts
        for row in part.tables(summary).get(name, ())
    )
    if report.ranking is None:
        return rows
    column = report.ranking.column
    return report.ranking.of(list(rows), lambda row: row[column])


def lead(summaries: Sequence[Summary], summary: Summary) -> dict[str, Any]:
    """The first columns of a call's rows, where there are several: streams, modules of a layer."""
    places = [(each.place.text, each.place.stream, each.place.layer) for each in summaries]
    stream = {"stream": summary.place.stream} if len({stream for _, stream, _ in places}) > 1 else {}
    again = len(set(places)) < len(places)
    return stream | ({"module": summary.place.name, "call": summary.place.call} if again else {})


def _findings(report: Report) -> Iterator[str]:
    if report.story is not None:
        yield story_finding(report.story)
    if report.reads:
        yield strongest_link(report.reads, report.prompts[0])
    if with_part(report.summaries, HeadKinds):
        if not report.reads or any_judged(report.summaries):
            yield finding(report.summaries)
        yield from sink_words(text_sinks(report.summaries))
