"""Commands by their names: the lines of `attn --help`, what is read of their words, what a shell completes."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from attn_cli.cli.kit.shell import commands
from attn_cli.cli.kit.shell.commands import COMMANDS, GROUPS
from attn_cli.sources.tables import TABLE_NAMES
from tests.program import Run, attn, environment, process
from tests.test_rooms import modules_after


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_is_the_first_of_the_docstring(name: str) -> None:
    module = name.replace(" ", "_")
    command = getattr(import_module(f"attn_cli.cli.{module}"), module)
    assert COMMANDS[name] == " ".join(command.__doc__.partition("\n\n")[0].split())


def test_every_module_in_the_folder_is_a_command() -> None:
    files = (Path(__file__).parents[2] / "attn_cli" / "cli").glob("[!_]*.py")
    assert {file.stem.replace("_", " ") for file in files} == {*COMMANDS}


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


def test_a_word_that_looks_as_if_it_asked_for_help_is_still_answered() -> None:
    run = attn("top", "river bank", "-t", "--help")
    assert run.code == 2
    assert run.errors.startswith("attn: no token '--help' in the text\n")
    assert attn("scale", "--", "-h").code == 2


_HELP_OF_ALL = """
import sys
from attn_cli.cli import app
from attn_cli.cli.kit.shell.commands import COMMANDS
for name in COMMANDS:
    app([*name.split(), "--help"], standalone_mode=False)
print("LOADED", *sorted({module.partition(".")[0] for module in sys.modules}))
"""


def test_help_of_every_command_imports_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", _HELP_OF_ALL], capture_output=True, env=environment(), check=True)
    loaded = done.stdout.decode().splitlines()[-1].split()
    assert loaded[0] == "LOADED"
    assert not {"torch", "transformers"} & set(loaded)


def test_help_and_version_import_no_command_and_no_numpy() -> None:
    for option in ("--help", "--version"):
        loaded = modules_after(option)
        assert "numpy" not in loaded
        assert not {f"attn_cli.cli.{name.replace(' ', '_')}" for name in COMMANDS} & loaded
    assert "attn_cli.cli.compare" not in modules_after("inspect", "river bank")


LINES = [
    ["top", "river bank", "-k", "2", "--by", "value", "--json"],
    ["top", "river bank", "-k", "two"],
    ["top", "river bank", "-k", "99999999999"],
    ["top", "river bank", "-k", "²"],
    ["top", "river bank", "--by", "weigth"],
    ["top", "river bank", "--hide", "river", "--hide", "sink", "--json"],
    ["compare"],
    ["compute", "the cat", "--scale", "half"],
    ["inspect", "river bank", "--image", "a", "--image", "b"],
]


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
