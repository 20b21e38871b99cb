"""Machine output: json, jsonl, csv, tsv, md and npz, all with the same names; JSON has null in place of NaN."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import orjson

from attn_cli._version import __version__
from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import cut, listed, visible
from attn_cli.views.view import View
from attn_cli.views.writers.input_fields import input_document

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_MOST = 4096  # rows of a table in Markdown
_MARKUP = re.compile(r"[\\|`*_~<>\[\]&$#@:^{}]|\.(?=\w)")  # a dot before a letter may make a link
_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


class ArchiveView(View):
    """Writes the arrays of one report as an .npz file, or its output as .npy; InputError for a second report."""

    def show(self, report: Report) -> None:
        """Write the report's arrays."""
        self.take_one(f"an {self.format} file holds one text", "use --format jsonl with --lines")
        arrays = arrays_of(report)
        if self.format == "npy":
            if report.answer is None or report.answer.name != "compute":
                raise InputError("npy holds one array, for attn compute", "use npz")
            arrays = {"output": arrays["output"]}
        self.sink.write(npy(arrays["output"]) if self.format == "npy" else archive(arrays))
        self.holds = f": {listed(_shapes(arrays))}"


class RowsView(View):
    """Writes each report as soon as it is there: as JSON, or its rows as JSON lines, CSV, TSV or Markdown."""

    def show(self, report: Report) -> None:
        """Write the report's JSON or its rows; the header of a table comes once, before the first report."""
        if self.format == "md":
            self.write_text(to_markdown(report))
        elif self.format in _DELIMITERS:
            self.sink.write(to_table(report, _DELIMITERS[self.format], header=self.is_first))
        else:
            self.sink.write(to_json(report) if self.format == "json" else to_jsonl(report))
        self.is_first = False


def envelope(report: Report) -> dict[str, Any]:
    """A report, the answer on one text, as the published JSON object; `attn schema COMMAND` prints its schema."""
    answer = answer_of(report)
    document: dict[str, Any] = {"schema": answer.shape.id, "attn": __version__, "about": dict(report.source)}
    if report.index is not None:
        document["index"] = report.index
    return document | _inputs(report, answer) | answer.document() | {"warnings": list(report.warnings)}


def to_json(report: Report) -> bytes:
    """A report's JSON object on one line; NaN and infinities are null."""
    return _json_line(envelope(report))


def to_jsonl(report: Report) -> bytes:
    """The rows of a report's table, one JSON object a line; each begins with the number of its text under --lines."""
    return b"".join(_json_line(row) for row in records(report))


def to_table(report: Report, delimiter: str, *, header: bool) -> bytes:
    """The rows of a report as CSV, with all digits of a number; masked scores, NaN and infinities are empty."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for row in records(report):
        if header:
            writer.writerow(row)
            header = False
        writer.writerow([_cell(value) for value in row.values()])
    return text.getvalue().encode("utf-8", "backslashreplace")


def to_markdown(report: Report) -> str:
    """A report's text, model, findings and rows as GitHub's Markdown; InputError for over 4,096 rows."""
    rows = list(islice(records(report), _MOST + 1))
    if len(rows) > _MOST:
        raise InputError(f"a table of over {_MOST:,} rows is too large for md", "use --format csv or html")
    number = "" if report.index is None else f"line {report.index + 1}: "
    text, model = cut(report.prompts[0].text, 200) if report.prompts else "", str(report.source["model"])
    names = [name for name in (rows[0] if rows else {}) if any(_readable(row[name]) for row in rows)]
    cells = ([_readable(row[name]) for name in names] for row in rows)
    lines = [name.replace("_", " ") for name in names], ["---"] * len(names), *cells
    table = [f"| {' | '.join(line)} |" for line in lines] if names else ["nothing"]
    of_model = [f"model: {escaped(model)}", ""] if text else []
    said = [f"    {visible(finding)}\n" for finding in answer_of(report).findings]  # as code: no markup
    return "\n".join([f"## {number}{escaped(text or model)}", "", *of_model, *said, *table, ""])


def escaped(text: str) -> str:
    """`text` escaped for Markdown: markup in it becomes character references in <code>, and has no effect."""
    plain = visible(text)
    safe = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", plain)
    return safe if safe == plain else f"<code>{safe}</code>"


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else ""
    return "" if value is None else escaped(str(value))


def records(report: Report) -> Iterator[dict[str, Any]]:
    """The table of a report, a dictionary a row: that of its answer which is the first."""
    number: dict[str, Any] = {} if report.index is None else {"text": report.index}
    yield from (number | row for row in answer_of(report).records())


def arrays_of(report: Report) -> dict[str, np.ndarray]:
    """Arrays stacked over layers, `[layers, heads, ...]`, with `tokens`, `token_ids`, `layers` and `heads`.

    Only where there are any: `queries` (picked rows), `block` (tokens a cell), `patches` `[n, 2]` (row and column,
    -1 for none), `images` `[n]` (0 for none), `generated` `[n]`.
    """
    if report.answer is not None:
        return report.answer.arrays()
    arrays: dict[str, np.ndarray] = {}
    streams = report.streams
    for stream in streams:
        summaries = [summary for summary in report.summaries if summary.place.stream == stream]
        prefix = "" if len(streams) == 1 else f"{stream}."
        arrays |= {prefix + name: values for name, values in (_stacked(summaries) | _labels(summaries)).items()}
    return arrays


def npy(array: np.ndarray) -> bytes:
    """An array as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as an .npz file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:  # np.savez takes no array called file
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return buffer.getvalue()


def _shapes(arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """The lengths of the axes of arrays of numbers; the last two of weights and scores are queries and keys."""
    for name, values in arrays.items():
        if values.ndim > 1 and values.dtype.kind == "f":
            axes = list(map(str, values.shape))
            if name.rpartition(".")[2] in ("weights", "scores"):
                axes[-2:] = f"{axes[-2]} queries", f"{axes[-1]} keys"
            yield f"{name} [{', '.join(axes)}]"


def _inputs(report: Report, answer: Answer) -> dict[str, Any]:
    if answer.shape.several_texts:
        return {"inputs": [input_document(prompt) for prompt in report.prompts]}
    return {"input": input_document(report.prompts[0] if report.prompts else Prompt("", ()), report.merged_from)}


def _stacked(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Every named array, stacked over all layers; where these differ in shape each has its own names."""
    arrays: dict[str, np.ndarray] = {}
    parts = [(summary, part) for summary in summaries for part in summary.parts]
    for kind, name in dict.fromkeys((part.name, name) for _, part in parts for name in part.arrays()):
        items = [
            (summary, part.arrays()[name]) for summary, part in parts if part.name == kind and name in part.arrays()
        ]
        if len(items) == len(summaries) and len({values.shape for _, values in items}) == 1:
            arrays[name] = np.stack([values for _, values in items])
            continue
        groups: dict[tuple[str, tuple[int, ...]], list[tuple[int, np.ndarray]]] = {}
        for summary, values in items:
            key = _layer_name(summary, summaries), values.shape
            groups.setdefault(key, []).append((summary.place.call, values))
        for (module, _), several in groups.items():
            call, values = several[0]
            lead = f"{module}.call{call}" if f"{module}.{name}" in arrays else module
            arrays[f"{lead}.{name}"] = values if len(several) == 1 else np.stack([each for _, each in several])
    return arrays


def _layer_name(summary: Summary, summaries: Sequence[Summary]) -> str:
    place = summary.place
    modules = {other.place.name for other in summaries if other.place.layer == place.layer}
    return f"layer{place.layer}" + (f".{place.name}" if len(modules) > 1 else "")


def _labels(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    first = summaries[0]
    places = [summary.place for summary in summaries]
    labels = {"layers": np.array([place.layer for place in places])}
    if len(set(labels["layers"].tolist())) < len(places):  # some layer number has several modules or calls
        labels |= {
            "modules": np.array([place.name for place in places]),
            "calls": np.array([place.call for place in places]),
        }
    if len({place.heads for place in places}) == 1:
        labels["heads"] = np.array(first.place.heads)
    else:
        labels |= {f"{_layer_name(summary, summaries)}.heads": np.array(summary.place.heads) for summary in summaries}
    for prefix, tokens in (("", first.queries), ("key_", first.keys)):
        if not prefix or first.keys != first.queries:
            labels |= _tokens(prefix, tokens)
    layers: dict[str, list[Summary]] = {}
    for summary in summaries:
        layers.setdefault(_layer_name(summary, summaries), []).append(summary)
    for name, calls in layers.items():
        for prefix, usual, of_calls in (
            ("", first.queries, [call.queries for call in calls]),
            ("key_", first.keys, [call.keys for call in calls]),
        ):
            if any(tokens != usual for tokens in of_calls):
                labels |= _tokens_of_calls(f"{name}.{prefix}", list(dict.fromkeys(of_calls)), of_calls)
    for part in (part for summary in summaries for part in summary.parts):
        labels |= part.labels()
    if hidden := first.hidden:
        labels["hidden_keys"] = np.array(hidden)
    return labels


def _tokens_of_calls(
    prefix: str, different: Sequence[Sequence[Token]], every: Sequence[Sequence[Token]]
) -> dict[str, np.ndarray]:
    arrays = [_tokens(prefix, tokens) for tokens in (every if len(different) > 1 else different)]
    if len(arrays) == 1:
        return arrays[0]
    names = [name for name, of in arrays[0].items() if all(x.get(name, of[:0]).shape == of.shape for x in arrays)]
    return {name: np.stack([of_call[name] for of_call in arrays]) for name in names}


def _tokens(prefix: str, tokens: Sequence[Token]) -> dict[str, np.ndarray]:
    ids = [-1 if token.id is None else token.id for token in tokens]
    arrays = {f"{prefix}tokens": np.array([token.text for token in tokens]), f"{prefix}token_ids": np.array(ids)}
    if any(token.row is not None for token in tokens):
        places = [(-1, -1) if token.row is None else (token.row, token.column) for token in tokens]
        arrays[f"{prefix}patches"] = np.array(places)
    if any(token.image is not None for token in tokens):
        arrays[f"{prefix}images"] = np.array([token.image or 0 for token in tokens])
    if any(token.generated for token in tokens):
        arrays[f"{prefix}generated"] = np.array([token.generated for token in tokens])
    return arrays


def _json_line(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value, np.ascontiguousarray, _JSON)
    except TypeError:  # lone surrogates, as in file names that are not UTF-8, and whole numbers beyond 64 bits
        return orjson.dumps(_escaped(value), np.ascontiguousarray, _JSON)


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(inner) for inner in value]
    foreign = isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)
    large = isinstance(value, int) and not -(2**63) <= value < 2**64
    return orjson.Fragment(json.dumps(value)) if foreign or large else value


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if not np.isfinite(value) else repr(value)
    return "" if value is None else value
