"""The blocks of a model as a table: a line per group of blocks that differ in their number alone."""

from collections.abc import Iterator
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.answers.layers import LAYER_FIELDS, SOFTMAX, Layer, Layers
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MORE = "more"  # softcap, bias, sink and calls in one column
_COLUMNS = ("stream", "layer", "mixer", "heads", "kv_heads", "mask", "scale", _MORE, "way", "name")
_HEADINGS = {field.name: field.heading or field.name for field in LAYER_FIELDS} | {_MORE: _MORE}
# columns to drop where a line is too narrow, the first ones first
_GIVEN_UP = ("way", "name", "scale", _MORE, "kv_heads", "heads")


def draw(layers: Layers, report: Report, screen: Screen) -> Iterator[Text | Table | str]:
    """A table of the model's blocks: heads, mask, scale ...; blocks that are alike share a line."""
    groups = list(_grouped(layers.rows))
    if (said := _sentence(groups)) is not None:
        yield ""
        yield Text("\n".join(wrap(said, screen.width)), BOLD)
    cells = [_cells(group) for group in groups]
    columns = [name for name in _COLUMNS if any(row[name] for row in cells)]
    if {row["stream"] for row in cells} == {"self"}:
        columns.remove("stream")
    for name in _GIVEN_UP:
        if name in columns and _width(cells, columns) > screen.width:
            columns.remove(name)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=BOLD)
    for name in columns:
        numeric = name in ("heads", "kv_heads", "scale")
        table.add_column(_HEADINGS[name], justify="right" if numeric else "left", no_wrap=True)
    for row, group in zip(cells, groups, strict=True):
        style = DIM if group[0].note or group[0].mixer != SOFTMAX else PLAIN
        table.add_row(*(Text(row[name], style) for name in columns))
    yield ""
    yield table
    for line in _notes(layers.rows):
        yield Text("\n".join(wrap(line, screen.width)), DIM)
    if "kv" in columns:
        yield Text("kv: key/value heads", DIM)
    if "way" in columns:
        yield packed_text(
            [
                "seen by: where its queries and keys are taken; registry: transformers' table of attention functions",
                "module: its name, * the layer",
            ],
            screen,
            DIM,
        )
    hidden = [_HEADINGS[name] for name in _GIVEN_UP if name not in columns and any(row[name] for row in cells)]
    if hidden:
        line = f"columns beyond this width: {', '.join(hidden)} · --json has all"
        yield Text("\n".join(wrap(line, screen.width)), DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the overview of the text that the model read; None for piped input."""
    return on_same_input("inspect", report, invocation)


def _sentence(groups: list[list[Layer]]) -> str | None:
    """`30 blocks alike: softmax attention of 9 heads over 3 key/value heads, causal`; None of unlike ones."""
    if len(groups) != 1 or groups[0][0].mixer != SOFTMAX or groups[0][0].note:
        return None
    row = groups[0][0]
    shared = "" if row.kv_heads in (0, row.heads) else f" over {counted(row.kv_heads, 'key/value head')}"
    if shared and row.heads and row.heads % row.kv_heads == 0:
        shared += f", each shared by {row.heads // row.kv_heads}"
    rule = [visible(row.mask)] if row.mask else []
    rule += [f"scale {row.scale:.4g}"] if row.scale is not None else []
    alike = f"{counted(len(groups[0]), 'block')}{' alike' if len(groups[0]) > 1 else ''}"
    return f"{alike}: softmax attention of {counted(row.heads or 0, 'head')}{shared}" + "".join(f", {x}" for x in rule)


def _grouped(rows: tuple[Layer, ...]) -> Iterator[list[Layer]]:
    """Groups of rows that differ only in their block, in the order of their first block."""
    groups: dict[tuple[object, ...], list[Layer]] = {}
    for row in rows:
        common = (row.stream, row.mixer, row.way, row.calls, row.heads, row.kv_heads, row.scale, row.mask, row.softcap,
                row.bias, row.sink, row.note, _within(row))  # fmt: skip
        groups.setdefault(common, []).append(row)
    yield from groups.values()


def _within(row: Layer) -> str:
    return ".".join("*" if part.isdigit() else part for part in row.name.split("."))


def _notes(rows: tuple[Layer, ...]) -> Iterator[str]:
    """Why blocks did not run, where the reason is known; one line for all blocks with the same reason."""
    streams_of: dict[str, list[str]] = {}
    for row in rows:
        if row.note and (reason := row.note.removeprefix("did not run").lstrip(": ")):
            streams_of.setdefault(reason, []).append(row.stream)
    for reason, streams in streams_of.items():
        yield visible(f"did not run: {', '.join(dict.fromkeys(streams))}, which {reason}")


def _cells(group: list[Layer]) -> dict[str, str]:
    row = group[0]
    more = [f"softcap {row.softcap:g}"] if row.softcap is not None else []
    more += [word for word, present in (("bias", row.bias), ("sink", row.sink)) if present]
    more += [f"{row.calls} calls"] if row.calls > 1 else []
    return {
        "stream": visible(row.stream),
        "layer": ranges(sorted({member.layer for member in group})),
        "mixer": "did not run"
        if row.note
        else row.mixer
        if row.mixer.startswith("no ")
        else row.mixer.removesuffix(" attention"),
        "heads": str(row.heads or ""),
        "kv_heads": str(row.kv_heads) if row.kv_heads not in (0, row.heads) else "",
        "mask": visible(row.mask or ""),
        "scale": "" if row.scale is None else f"{row.scale:.4g}",
        _MORE: ", ".join(more),
        "way": row.way or "",
        "name": visible(row.name if len(group) == 1 else _within(row)),
    }


def _width(cells: list[dict[str, str]], columns: list[str]) -> int:
    return sum(max(len(_HEADINGS[name]), *(len(row[name]) for row in cells)) + 2 for name in columns)
