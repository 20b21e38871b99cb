"""attn guide: the list of pages, a page on a terminal and in a pipe, and a page that isn't there."""

import re

import pytest
from rich.cells import cell_len

from attn_cli.cli.guide import FOLDER, topics
from tests.program import attn, refused
from tests.test_rooms import modules_after

PAGES = [topic.name for topic in topics()]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_the_list_is_that_of_the_files_and_fits_a_screen() -> None:
    lines = attn("guide").lines
    listed = lines[: lines.index("")]
    assert [line.split()[0] for line in listed] == sorted(file.stem for file in FOLDER.glob("*.md"))
    assert [line.split(maxsplit=1)[1] for line in listed] == [topic.summary for topic in topics()]
    assert lines[-1].startswith("attn guide TOPIC")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("columns", [40, 80])
def test_the_list_wraps_between_words(columns: int) -> None:
    run = attn("guide", terminal=True, env={"COLUMNS": str(columns)})
    assert max(map(cell_len, run.lines)) <= columns
    for topic in topics():
        assert set(topic.summary.split()) <= set(run.text.split())


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_list_names_every_page(columns: int) -> None:
    run = attn("guide", terminal=True, env={"COLUMNS": str(columns)})
    assert max(map(cell_len, run.lines)) <= columns
    assert set(PAGES) <= set(run.text.replace(",", " ").split())
    assert "attn guide tour" in " ".join(run.text.split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_a_title_and_a_summary(page: str) -> None:
    lines = (FOLDER / f"{page}.md").read_text("utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[1] == lines[3] == ""
    assert lines[2].endswith(".")


@pytest.mark.parametrize("page", PAGES)
def test_a_pipe_gets_the_markdown_itself(page: str) -> None:
    run = attn("guide", page)
    assert (run.code, run.errors) == (0, "")
    assert run.bytes == (FOLDER / f"{page}.md").read_bytes()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_gets_a_drawn_page_that_fits(page: str, columns: int) -> None:
    run = attn("guide", page, terminal=True, env={"COLUMNS": str(columns), "COLORTERM": "truecolor"})
    text = ESCAPE.sub("", run.text)
    assert "\x1b[1m" in run.text
    assert "\x1b" not in text
    assert max(map(cell_len, text.splitlines())) <= columns
    assert not re.search(r"^(#+ [A-Z]|```)", text, re.MULTILINE)


def test_screens_in_a_page_keep_their_lines() -> None:
    drawn = attn("guide", "tour", terminal=True, env={"COLUMNS": "80", "NO_COLOR": "1"}).lines
    page = (FOLDER / "tour.md").read_text("utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            assert line[:80].rstrip() in drawn


def test_no_color_means_no_escape_code_and_always_means_some_in_a_pipe() -> None:
    plain = attn("guide", "costs", terminal=True, env={"NO_COLOR": "1", "COLUMNS": "80"})
    assert b"\x1b" not in plain.bytes
    assert "with `attn`." in plain.text  # code is told from prose without colour, too
    assert b"\x1b[" in attn("guide", "tour", "--color", "always").bytes
    assert b"\x1b" not in attn("guide", "tour", "--color", "never", terminal=True, env={"COLORTERM": "truecolor"}).bytes


def test_a_screen_that_knows_ascii_alone_gets_no_more() -> None:
    run = attn("guide", "tour", terminal=True, encoding="ascii", env={"COLUMNS": "80"})
    assert run.code == 0
    assert run.bytes.isascii()
    assert "\\u25" not in run.text  # frames and bars have marks of their own


def test_a_page_that_is_not_there_is_told_with_near_names() -> None:
    refused(attn("guide", "ladde"), 2, "ladde", "ladder", "attn guide")
    refused(attn("guide", "qqq"), 2, "qqq", *PAGES)
    refused(attn("guide", "../guide/tour"), 2, "tour")
    refused(attn("guide", "tour", "--color", "blue"), 2, "--color")


def test_help_points_to_the_guide() -> None:
    assert "attn guide" in attn("--help").text.partition("Options:")[0]
    assert "attn guide tour" in attn("guide", "--help").text


def test_a_page_starts_quickly() -> None:
    for arguments in (["guide"], ["guide", "tour"], ["guide", "tour", "--color", "always"]):
        assert not {"torch", "transformers"} & modules_after(*arguments)
    assert not {"rich.markdown", "numpy"} & modules_after("guide")


def test_a_word_is_looked_up_page_by_page_with_the_number_of_its_line() -> None:
    lines = attn("guide", "induction").lines
    for line in lines:
        page, number, words = line.split(":", 2)
        assert (FOLDER / f"{page}.md").read_text("utf-8").splitlines()[int(number) - 1].strip() == words.strip()
        assert "induction" in words.lower()
    assert len(lines) == sum(len(re.findall(r"^.*\binduction\b.*$", page.read_text("utf-8"), re.I | re.M))
                             for page in FOLDER.glob("*.md"))  # fmt: skip


@pytest.mark.parametrize(("word", "page"), [("sink", "sinks"), ("tutorial", "ladder"), ("JSON", "formats")])
def test_a_word_leads_to_the_page_about_it_which_has_another_name(word: str, page: str) -> None:
    assert attn("guide", word).lines[0].startswith(f"{page}:")


@pytest.mark.parametrize("word", ["sink", "position", "the", "attn"])
@pytest.mark.parametrize("columns", [40, 80])
def test_what_pages_say_of_a_word_fits_a_terminal(word: str, columns: int) -> None:
    lines = attn("guide", word, terminal=True, env={"COLUMNS": str(columns)}).lines
    assert lines and all(len(line) <= columns for line in lines)
