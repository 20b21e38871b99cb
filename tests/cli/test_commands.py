"""Commands by their names: `attn --help`, `attn guide`, what is read of their words, what a shell completes."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from rich.cells import cell_len

from attn_cli.cli.guide import FOLDER, topics
from attn_cli.cli.kit.shell import commands
from attn_cli.cli.kit.shell.commands import COMMANDS, GROUPS
from attn_cli.sources.tables import TABLE_NAMES
from tests.conftest import SCREEN_WIDTHS
from tests.program import Run, attn, process
from tests.test_rooms import modules_after


def test_every_module_in_the_folder_is_a_command_whose_line_is_the_first_of_its_docstring() -> None:
    files = (Path(__file__).parents[2] / "attn_cli" / "cli").glob("[!_]*.py")
    names = [file.stem for file in files]
    assert {name.replace("_", " ") for name in names} == {*COMMANDS}
    for name in names:
        command = getattr(import_module(f"attn_cli.cli.{name}"), name)
        assert COMMANDS[name.replace("_", " ")] == " ".join(command.__doc__.partition("\n\n")[0].split())


def test_every_command_is_listed_in_order_and_has_a_help_of_its_own() -> None:
    text = attn("--help").text
    sections = {title: text.partition(f"\n{title}:\n")[2].partition("\n\n")[0] for title in GROUPS}
    listed = {title: [line[2:].partition("  ")[0] for line in section.splitlines() if line[2:3].strip()]
              for title, section in sections.items()}  # fmt: skip
    assert [name for names in listed.values() for name in names] == [*COMMANDS]
    assert {title: tuple(names) for title, names in listed.items()} == GROUPS
    for name, line in COMMANDS.items():
        shown = " ".join(attn(*name.split(), "--help").text.split())
        assert shown.startswith(f"Usage: attn {name} ")
        assert line in shown


def test_no_line_of_a_help_is_wider_than_a_terminal() -> None:
    for command in ([], *(name.split() for name in COMMANDS)):
        lines = attn(*command, "--help", env={"COLUMNS": "80"}).lines
        assert not [line for line in lines if len(line) > 80]


def test_help_and_version_import_no_command_and_no_numpy() -> None:
    for option in ("--help", "--version"):
        loaded = modules_after(option)
        assert "numpy" not in loaded
        assert not {f"attn_cli.cli.{name.replace(' ', '_')}" for name in COMMANDS} & loaded
    assert "attn_cli.cli.compare" not in modules_after("inspect", "river bank")


TOP = ["top", "river bank"]
LINES = [[*TOP, "-k", "2", "--by", "value", "--json"], [*TOP, "-k", "two"], [*TOP, "-k", "99999999999"],
         [*TOP, "--by", "weigth"], [*TOP, "--hide", "river", "--hide", "sink", "--json"], ["compare"],
         ["compute", "the cat", "--scale", "half"]]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_values_that_go_past_typers_validators_are_read_as_by_typer(
    line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(run: Run) -> tuple[int, bytes, str]:
        return run.code, run.bytes, run.errors

    quick = shown(attn(*line))
    monkeypatch.setattr(
        commands, "_process_value", lambda parameter, by_typer, context, value: by_typer(context, value)
    )
    assert quick == shown(attn(*line))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("attn compute --mask cau", {"causal", "causal:2"}),
        ("attn heads -m open", {"openai-community/gpt2"}),
        ("attn heads -m toy:", {f"toy:{name}" for name in TABLE_NAMES}),
        ("attn inspect -m ./my", set()),  # files are left to the shell
    ],
)
def test_values_complete(words: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "models--openai-community--gpt2").mkdir()
    variables = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    printed = process(env=variables | {"HF_HUB_CACHE": str(tmp_path)}).text.split()
    assert expected <= set(printed) and bool(expected) == bool(printed)


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


def test_a_word_is_looked_up_page_by_page_with_the_number_of_its_line() -> None:
    lines = attn("guide", "induction").lines
    assert lines
    for line in lines:
        page, number, words = line.split(":", 2)
        assert (FOLDER / f"{page}.md").read_text("utf-8").splitlines()[int(number) - 1].strip() == words.strip()
        assert "induction" in words.lower()
