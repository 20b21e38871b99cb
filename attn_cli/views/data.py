"""Machine output: json, jsonl, csv, tsv and npz, all with the same names and never a NaN that is not JSON."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from attn_cli._version import __version__
from attn_cli.errors import InputError
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report


def envelope(report: Report) -> dict[str, Any]:
    """One report as the published JSON object (`attn schema COMMAND` prints its JSON Schema)."""
    shown: dict[str, Any] = {"schema": f"attn.{report.command}/1", "attn": __version__, "source": dict(report.source)}
    if report.index is not None:
        shown["index"] = report.index
    shown["input"] = {
        "text": report.prompt.text,
        "tokens": [
            {"index": t.index, "id": t.id, "text": t.text, "start": t.start, "end": t.end, "special": t.special}
            for t in report.prompt.tokens
        ],
    }
    shown["result"] = result(report)
    shown["warnings"] = list(report.warnings)
    return shown


def result(report: Report) -> dict[str, Any]:
    """The layers that were seen, then every part by its name, each a list over layers and heads."""
    found: dict[str, Any] = {"layers": [layer(summary) for summary in report.summaries]}
    if report.command == "compute":
        arrays = computed(report)
        masked = {"masked_cells": int(np.isneginf(arrays["scores"]).sum())} if "scores" in arrays else {}
        return found | arrays | masked
    for summary in report.summaries:
        for part in summary.parts:
            found.setdefault(part.name, []).extend(part.documents(summary))
    return found


def layer(summary: Summary) -> dict[str, Any]:
    """Which attention a summary is about and by which rule it works."""
    place = summary.place
    return {
        "layer": place.layer,
        "name": place.name,
        "stream": place.stream,
        "call": place.call,
        "heads": list(place.heads),
        "kv_heads": list(place.groups),
        "rule": dict(summary.rule),
    }


def to_json(report: Report) -> bytes:
    """The envelope on one line; NaN and infinities are null."""
    # Surrogates can't be UTF-8: a text that holds half a character keeps it as an escape.
    try:
        return orjson.dumps(envelope(report), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        raise InputError("the text is not valid UTF-8 and can't be written as JSON") from None


def records(report: Report) -> Iterator[dict[str, Any]]:
    """Flat rows of the report's first part; with `--lines` each row begins with the text's number."""
    for summary in report.summaries:
        for row in summary.parts[0].records(summary):
            yield row if report.index is None else {"text": report.index, **row}


def to_jsonl(report: Report) -> bytes:
    """One flat row per line, or with `--lines` one envelope per text and line."""
    if report.index is not None:
        return to_json(report)
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps(row, option=option) for row in records(report))


def to_table(report: Report, delimiter: str, *, header: bool) -> bytes:
    """Flat rows with a header line; numbers with as many digits as they have, blocked scores empty."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for row in records(report):
        if header:
            writer.writerow(row)
            header = False
        writer.writerow([_cell(value) for value in row.values()])
    return text.getvalue().encode("utf-8", "surrogatepass")


def to_npz(report: Report) -> bytes:
    """Arrays stacked over layers, `[layers, heads, ...]`, with `tokens`, `token_ids`, `layers` and `heads`.

    Where layers differ in shape each has its own `layerN.` names; where a model has several streams, each has its own
    prefix (`encoder.`, `decoder.`, `cross.`).
    """
    if report.command == "compute":
        return archive(computed(report))
    arrays: dict[str, np.ndarray] = {}
    streams = list(dict.fromkeys(summary.place.stream for summary in report.summaries))
    for stream in streams:
        summaries = [summary for summary in report.summaries if summary.place.stream == stream]
        prefix = "" if len(streams) == 1 else f"{stream}."
        arrays |= {prefix + name: values for name, values in _stacked(summaries).items()}
        arrays[prefix + "layers"] = np.array([summary.place.layer for summary in summaries])
        arrays[prefix + "heads"] = np.array(summaries[0].place.heads)
    if report.prompt.tokens:
        arrays["tokens"] = np.array([token.text for token in report.prompt.tokens])
        arrays["token_ids"] = np.array([-1 if token.id is None else token.id for token in report.prompt.tokens])
    return archive(arrays)


def to_npy(report: Report) -> bytes:
    """The attention output alone, as it is."""
    if report.command != "compute":
        raise InputError("npy holds one array, for attn compute", "use npz")
    buffer = io.BytesIO()
    np.save(buffer, computed(report)["output"])
    return buffer.getvalue()


def computed(report: Report) -> dict[str, np.ndarray]:
    """`scores`, `weights` and `output` of `attn compute` with the axes that the user's matrices had."""
    lead = tuple(report.options["lead"])
    found = {}
    for name, values in _stacked(list(report.summaries)).items():
        keep_heads = report.options["head_axis"] and not (name == "output" and values.shape[1] == 1)
        found[name] = values.reshape(*lead, *(values.shape[1:] if keep_heads else values.shape[2:]))
    return found


def archive(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _stacked(summaries: list[Summary]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    by_name: dict[str, list[tuple[int, np.ndarray]]] = {}
    for summary in summaries:
        for part in summary.parts:
            for name, values in part.arrays().items():
                by_name.setdefault(name, []).append((summary.place.layer, values))
    for name, items in by_name.items():
        if len({values.shape for _, values in items}) == 1:
            found[name] = np.stack([values for _, values in items])
        else:
            found |= {f"layer{number}.{name}": values for number, values in items}
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if not np.isfinite(value) else repr(value)
    return "" if value is None else value
