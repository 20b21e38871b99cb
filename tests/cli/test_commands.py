"""What stands for a command in `attn --help` is what the command says of itself."""

from importlib import import_module
from pathlib import Path

import pytest

from attn_cli.cli.kit.commands import COMMANDS, help_lines
from tests.program import attn
from tests.test_rooms import modules_after


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_is_the_first_of_the_docstring(name: str) -> None:
    module = name.replace(" ", "_")
    command = getattr(import_module(f"attn_cli.cli.{module}"), module)
    assert COMMANDS[name] == " ".join(command.__doc__.partition("\n\n")[0].split())


def test_a_module_in_the_folder_is_a_command_and_needs_no_other_entry(tmp_path: Path) -> None:
    for name in ("zebra", "attend", "zebra_walk", "top", "inspect", "__init__", "_private"):
        (tmp_path / f"{name}.py").write_text(f'"""What {name} does."""\n\nimport nothing\n')
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "run.py").touch()
    assert help_lines(tmp_path) == {name: f"What {name} does." for name in ("inspect", "top", "attend", "zebra")} | {
        "zebra walk": "What zebra_walk does."
    }


def test_every_command_is_listed_in_order_and_has_a_help_of_its_own() -> None:
    listed = attn("--help").text.partition("Commands:\n")[2]
    assert [line[2:].partition("  ")[0] for line in listed.splitlines() if line[2:3].strip()] == [*COMMANDS]
    for name, line in COMMANDS.items():
        shown = " ".join(attn(*name.split(), "--help").text.split())
        assert shown.startswith(f"Usage: attn {name} ")
        assert line in shown


def test_examples_in_a_help_stand_on_lines_of_their_own() -> None:
    for name in COMMANDS:
        lines = attn(*name.split(), "--help").lines
        first = lines.index("  Examples:") + 1  # and not run together into a paragraph
        assert lines[first].startswith((f"    attn {name}", "    echo ", "    cat ")), lines[first]


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
