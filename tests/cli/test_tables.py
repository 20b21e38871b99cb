"""Answers made of tables: what a screen shows is in the JSON, no line is wider than the screen, csv rows keep their
columns, and an empty table ends."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from attn_cli.summaries.columns import COLUMNS
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import shown_value, table_lines
from tests.program import attn
from tests.real_models import MINILM
from tests.views.test_schemas import hold

COST = ("cost", "-n", "3000", "--heads", "4", "--kv-heads", "2", "--dim", "8")
MODEL = ("knock", "the cat sat on a photo", "-k", "99", "-m")

RIVER = "he sat on the river bank"
SPELLED = ("compute", "--x", "1 0 .5; 0 -2 1", "--steps", "-t", "1", "--projections", "1")
ASKED: dict[str, tuple[object, ...]] = {
    "knock": (*MODEL, "LLAMA"),
    "together": (*MODEL, "LLAMA", "--together", "0.1,1.2"),
    "everywhere": (*MODEL, "LLAMA", "--everywhere"),
    "parts": ("parts", *MODEL[1:2], "-m", "LLAMA"),
    "cost": COST,
    "nearest": ("nearest", "king - man + woman"),
    "layers": ("layers", "-m", "LLAMA"),
    "env": ("env",),
    "compare": ("compare", "the cat sat on a photo", "the cat sat on the photo", "-w", "photo", "-m", "LLAMA"),
    "plane": ("plane", RIVER),
    "learn": ("learn", "a cat", "-w", "a", "--to", "cat"),
    "top of a head": ("top", RIVER, "-m", MINILM, "-H", "2.3"),
    "top together": ("top", RIVER, "-m", MINILM, "-H", "2.3", "--overall"),
    "top by value": ("top", RIVER, "-m", MINILM, "-H", "2.3", "-t", "bank", "--by", "value"),
    "heads": ("heads", RIVER, "-m", MINILM, "-v"),
    "heads of a key": ("heads", RIVER, "-m", MINILM, "--key", "bank"),
    "inspect": ("inspect", RIVER, "-m", MINILM),
    "story": ("inspect", "the cat sat on a photo", "-m", "LLAMA"),
    "matrix": ("matrix", RIVER, "-H", "0"),
    "kinds": ("heads", RIVER * 4, "--kinds", "-m", MINILM),
    "scale": ("scale", "--dims", "4,16"),
    "decode": ("compute", "the cat sat", "--decode"),
    "decode grouped": ("compute", "the cat sat", "--decode", "--kv-heads", "1", "--projections", "1"),
    "steps": ("compute", RIVER, "--steps", "-t", "bank"),
    "steps of numbers": ("compute", "--q", "1 .5", "--k", "1 2; 3 -4", "--v", "5; 6", "--steps", "-t", "0"),
    "steps with W": (*SPELLED, "--heads", "1"),
    "steps with a sink": (*SPELLED, "--heads", "1", "--sink", "0.5"),
    "cost latent": (*COST, "--latent", "64"),
    "cost window": (*COST, "--window", "32"),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_number_of_a_screen_is_in_the_json(name: str, llama: Path) -> None:
    words = [llama if word == "LLAMA" else word for word in ASKED[name]]
    screen, data = (attn(*words, *more, env={"COLUMNS": "160"}) for more in ((), ("--json",)))
    hold(data, data.json["schema"].removeprefix("attn.").partition("/")[0])
    rows = [row for table in data.json["tables"].values() for row in table]
    known = {word for row in rows for column in row for word in forms(row, column)} | {
        f"{row.get('layer')}.{row.get('head')}" for row in rows
    }
    known = {part for text in [*known, *data.json["findings"]] for part in text.split()}
    lines = [line.replace(" - ", " + -") for line in screen.lines if line.startswith("  ") and "·" not in line]
    assert len(lines) > 1
    for word in (
        word.removeprefix("v[").strip("()[]") for line in lines for word in line.split() if re.search(r"\d", word)
    ):
        assert word in known, word


def forms(row: Mapping[str, Any], column: str) -> list[str]:
    """A value as tables show it, and as screens of their own do."""
    value = row[column]
    flat = [x for x in np.ravel(np.array(value, dtype=object)) if isinstance(x, int | float)]
    numbers = [f"{x:{form}}" for x in flat for form in (".1f", ".2f", "+.2f", ".3f", ".4f", ".0%", ".3g", "g")]
    unnamed = column.startswith(("key_token", "query_token")) and column.replace("_token", "") not in row
    nested = isinstance(value, list) and not all(isinstance(x, int | float) for x in value)
    table = [] if column not in COLUMNS or unnamed or nested else [shown_value(row, column)]
    return [*table, *numbers, str(value)]


VALUES = {"bits": st.floats(-99, 99), "layer": st.integers(0, 99), "word": st.text(max_size=30), "weight": st.none()}


@given(rows=st.lists(st.fixed_dictionaries(VALUES), max_size=4), width=st.integers(20, 120))
def test_no_line_is_wider_than_the_screen(rows: list[Mapping[str, Any]], width: int) -> None:
    lines = list(table_lines(rows, [str(at) for at in range(len(rows))], [*VALUES], Screen(width), "bits", "row"))
    assert len(lines) == len(rows) + 1
    assert max(cell_len(line.plain) for line in lines) <= width


def test_rows_of_csv_have_the_same_columns_for_every_line(llama: Path) -> None:
    lines = attn("knock", "--lines", "-m", llama, "-f", "csv", stdin=b"the cat sat\na\n").lines
    assert {line.count(",") for line in lines} == {lines[0].count(",")} and len(lines) > 9
