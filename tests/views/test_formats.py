"""The table of formats: what follows from it, and that the documentation holds it."""

from pathlib import Path

from attn_cli.views.formats import FORMATS, format_names
from tests.program import attn

ROOT = Path(__file__).parents[2]


def test_every_format_has_a_writer_and_suffixes_of_its_own() -> None:
    suffixes = [suffix for format in FORMATS for suffix in format.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert all(format.suffixes for format in FORMATS)


def test_help_names_every_format() -> None:
    text = " ".join(attn("top", "--help").text.split())
    assert ", ".join(format_names()[:-1]) + f" or {format_names()[-1]}." in text
