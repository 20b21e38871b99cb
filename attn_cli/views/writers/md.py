"""md: small tables of GitHub's Markdown; markup in tokens becomes character references inside <code>."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.keys import Received, mean_received
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.text import cut, visible
from attn_cli.views.view import View

_COMMANDS = ("inspect", "heads", "top", "overall", "matrix", "layers")
_TITLES = {"heads": "heads", "top": "top keys", "overall": "top keys over all queries"}
_LARGEST = 64  # the most rows and keys of a matrix in a readable table
_MOST_RECEIVED = 6
_MARKUP = re.compile(r"[\\|`*_~<>\[\]&$#@:^{}]|\.(?=\w)")  # a dot before a letter may make a link


class MarkdownView(View):
    """Writes the tables of each report in Markdown as soon as it is there."""

    def show(self, report: Report) -> None:
        """Write the report's tables; InputError for a command without any, and a matrix of over 64 rows or keys."""
        if report.command not in _COMMANDS and report.answer is None:
            raise InputError(
                f"md has no table for the answer of {report.command}",
                "use --format csv or html: md is for inspect, heads, top, matrix, layers",
            )
        self.write_text("\n".join(_blocks(report)))


def escaped(text: str) -> str:
    """`text` escaped for a table or heading: markup in it is displayed and has no effect."""
    plain = visible(text)
    safe = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", plain)
    return safe if safe == plain else f"<code>{safe}</code>"


def _blocks(report: Report) -> Iterator[str]:
    """Headings and tables, each ending with a newline."""
    number = "" if report.index is None else f"line {report.index + 1}: "
    model = str(report.source["model"])
    text = cut(report.prompts[0].text, 200) if report.prompts else ""
    yield f"## {number}{escaped(text or model)}\n"
    if text:
        yield f"model: {escaped(model)}\n"
    tables = answer_of(report).tables
    if report.answer is not None:
        yield _table(next(iter(tables.values())))
        return
    for name, title in _TITLES.items():
        if name in tables:
            yield f"### {title}\n"
            yield _table(tables[name])
    for summary in report.summaries:
        for part in summary.parts:
            if isinstance(part, Received):
                yield from _received(summary, part)
            elif isinstance(part, Matrix):
                yield from _matrix(summary, part)


def _received(summary: Summary, received: Received) -> Iterator[str]:
    shares = mean_received([received])  # [m]
    keys = [key for key in np.argsort(-shares, kind="stable").tolist() if key not in summary.hidden][:_MOST_RECEIVED]
    yield f"### {_layer(summary)} · share of all attention received, mean over heads\n"
    yield _table({"key": key, "key_token": summary.keys[key].text, "share": float(shares[key])} for key in keys)


def _matrix(summary: Summary, matrix: Matrix) -> Iterator[str]:
    """A table per head and kind, with queries as rows and keys as columns."""
    rows, columns = _row_labels(summary, matrix), _key_labels(summary, matrix)
    listed = [column for column, _ in matrix.listed_keys(summary)] if matrix.block == (1, 1) else slice(None)
    if max(len(rows), len(columns)) > _LARGEST:
        reason = f"a matrix of {len(rows)} x {len(columns)} is too large for md, which takes {_LARGEST} x {_LARGEST}"
        raise InputError(reason, "use --format csv, npz or html, or attn top")
    block = "" if matrix.block == (1, 1) else f" · {matrix.pooling} over {matrix.block[0]} x {matrix.block[1]}"
    kinds = {kind: values for kind, values in matrix.arrays().items() if kind != "scores" or matrix.weights is None}
    for kind, values in kinds.items():
        for at, head in enumerate(matrix.head_names(summary)):
            head_words = f"mean of {matrix.averaged} heads" if matrix.averaged else f"head {head}"
            yield f"### {_layer(summary)} · {head_words} · {kind.replace('_', ' ')}{block}\n"
            lines = (
                [label, *map(_cell, line)] for label, line in zip(rows, values[at][:, listed].tolist(), strict=True)
            )
            yield _lines(["", *columns], lines)


def _row_labels(summary: Summary, matrix: Matrix) -> list[str]:
    queries = [summary.queries[row] for row in matrix.row_numbers(summary)]
    return [f"{token.index} {escaped(token.text)}" for token in queries[:: matrix.block[0]]]


def _key_labels(summary: Summary, matrix: Matrix) -> list[str]:
    keys = [summary.keys[key] for _, key in matrix.listed_keys(summary)]
    return [f"{token.index} {escaped(token.text)}" for token in keys[:: matrix.block[1]]]


def _layer(summary: Summary) -> str:
    place = summary.place
    return f"layer {place.layer}" + ("" if place.stream == "self" else f" {escaped(place.stream)}")


def _table(records: Iterable[Mapping[str, Any]]) -> str:
    rows = list(records)
    names = [name for name in (rows[0] if rows else {}) if any(_cell(row[name]) for row in rows)]
    if not names:
        return "nothing\n"
    return _lines([name.replace("_", " ") for name in names], ([_cell(row[name]) for name in names] for row in rows))


def _lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    every = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else ""
    return escaped(str(value))
