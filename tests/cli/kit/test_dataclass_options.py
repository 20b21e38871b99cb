"""A dataclass of options becomes options of a command, in the order in which --help lists them."""

import inspect
from dataclasses import dataclass
from typing import ClassVar

from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.errors import ExitCode

A = argument("A", "Read a number.", ...)
OWN = option("--own N", "Add a number.", 0)


@dataclass(frozen=True)
class Where:
    file: str = option("--file FILE", "Read a file.", "-")
    line: int = option("--line N", "Read a line.", 1)


@dataclass(frozen=True)
class Around:
    COMMANDS_OWN_AFTER: ClassVar[str] = "first"

    first: int = option("--first N", "Begin here.", 1)
    last: int = option("--last N", "End here.", 2)


def test_fields_stand_where_their_dataclass_stands() -> None:
    @takes_options
    def command(a: int = A, *, where: Where, b: int = OWN) -> ExitCode:
        raise AssertionError

    assert [*inspect.signature(command).parameters] == ["a", "file", "line", "b"]


def test_a_dataclass_may_stand_around_the_commands_own_options() -> None:
    @takes_options
    def command(around: Around, *, own: int = OWN, where: Where) -> ExitCode:
        raise AssertionError

    parameters = inspect.signature(command).parameters
    assert [*parameters] == ["first", "own", "file", "line", "last"]
    assert [parameter.default for parameter in parameters.values()] == [1, 0, "-", 1, 2]


def test_the_command_gets_its_dataclasses_whole() -> None:
    calls = []

    @takes_options
    def command(around: Around, *, own: int = OWN, where: Where) -> ExitCode:
        calls.append((around, own, where))
        return ExitCode.NEGATIVE

    assert command(first=5, own=3, file="a", line=7, last=6) == 1
    assert calls == [(Around(5, 6), 3, Where("a", 7))]
