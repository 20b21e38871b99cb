"""attn guide: the list of pages, a page on a terminal and in a pipe, and a page that isn't there."""

import re

import pytest
from rich.cells import cell_len

from attn_cli.cli.guide import FOLDER, topics
from tests.conftest import SCREEN_WIDTHS
from tests.program import attn, refused

PAGES = [*topics()]


@pytest.mark.parametrize("columns", SCREEN_WIDTHS)
def test_the_list_names_every_page(columns: int) -> None:
    run = attn("guide", terminal=True, env={"COLUMNS": str(columns)})
    assert max(map(cell_len, run.lines)) <= columns
    assert set(PAGES) <= set(run.text.replace(",", " ").split())


@pytest.mark.parametrize("page", PAGES)
def test_a_pipe_gets_the_markdown_and_a_terminal_a_drawn_page_that_fits(page: str) -> None:
    assert attn("guide", page).bytes == (FOLDER / f"{page}.md").read_bytes()
    for columns in (40, 120):
        run = attn("guide", page, terminal=True, env={"COLUMNS": str(columns), "COLORTERM": "truecolor"})
        text = re.sub(r"\x1b\[[0-9;]*m", "", run.text)
        assert "\x1b[1m" in run.text and "\x1b" not in text
        assert max(map(cell_len, text.splitlines())) <= columns
        assert not re.search(r"^(#+ [A-Z]|```)", text, re.MULTILINE)


def test_a_page_that_is_not_there_is_told_with_near_names() -> None:
    refused(attn("guide", "ladde"), 2, "ladder")
    refused(attn("guide", "../guide/tour"), 2, "tour")


def test_a_word_is_looked_up_page_by_page_with_the_number_of_its_line() -> None:
    lines = attn("guide", "induction").lines
    assert lines
    for line in lines:
        page, number, words = line.split(":", 2)
        assert (FOLDER / f"{page}.md").read_text("utf-8").splitlines()[int(number) - 1].strip() == words.strip()
        assert "induction" in words.lower()
