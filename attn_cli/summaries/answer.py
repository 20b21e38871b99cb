"""What a command answers: findings, tables of columns that `columns.py` defines, and matrices."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_cli.display import Displayed
from attn_cli.errors import InputError
from attn_cli.fields import NESTED, TEXT, Schema, each
from attn_cli.summaries.columns import COLUMNS, Column, object_schema

if TYPE_CHECKING:
    from pandas import DataFrame


class Fields(dict[str, Any]):
    """A row by the names of its columns; InputError that lists them for another name."""

    def __missing__(self, name: str) -> Any:
        raise InputError(f"a row has no {name!r}", f"it has {', '.join(self)}; arrays are in .arrays")


class Table(Sequence[Any]):
    """Rows of named columns of equal length, or rows to be made when asked for; `to_pandas` makes a data frame."""

    def __init__(self, rows: Mapping[str, Sequence[Any] | np.ndarray] | Callable[[], Iterable[Mapping[str, Any]]]):
        self._rows = rows

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Table":
        """The table of these rows; None where one lacks a column that others have."""
        listed = list(rows)
        return cls({name: [row.get(name) for row in listed] for name in dict.fromkeys(chain(*listed))})

    @cached_property
    def columns(self) -> Mapping[str, Sequence[Any] | np.ndarray]:
        """The values of all rows by column."""
        return Table.of(self._rows()).columns if callable(self._rows) else self._rows

    def __iter__(self) -> Iterator[Any]:
        return map(Fields, self._rows()) if callable(self._rows) else map(self.__getitem__, range(len(self)))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[row] for row in range(len(self))[at]]
        at = range(len(self))[at]  # an empty table has no column that would end the rows
        cells = ((name, values[at]) for name, values in self.columns.items())
        return Fields((name, cell.item() if isinstance(cell, np.generic) else cell) for name, cell in cells)

    def __repr__(self) -> str:
        return f"Table of {len(self):,} rows: {', '.join(self.columns) or 'empty'}"

    def to_pandas(self) -> "DataFrame":
        """The rows as a data frame of pandas, which must be installed."""
        return import_module("pandas").DataFrame({name: list(values) for name, values in self.columns.items()})


@dataclass(frozen=True)
class Shape:
    """What a command writes: `attn.NAME/NUMBER`, what it is, and the columns of each table, the first that of csv."""

    id: str
    meaning: str
    tables: Mapping[str, Sequence[str]]  # a column whose name ends with ? is there for some models alone
    screen: Mapping[str, Sequence[str]] = field(default_factory=dict)  # rows named by the first column
    bars: Sequence[str] = ()
    legend: Sequence[str] = ()
    matrices: Mapping[str, str] = field(default_factory=dict)
    several_texts: bool = False
    rows_alone: bool = False  # JSON has no first table: its numbers are in matrices, or nested in another
    own: Mapping[str, Column] = field(default_factory=dict)  # columns that mean something else than in COLUMNS

    @property
    def name(self) -> str:
        """The command's name, as in `attn.NAME/NUMBER`."""
        return self.id.removeprefix("attn.").partition("/")[0]

    def schema(self) -> dict[str, Schema]:
        """The JSON Schema of `findings`, `tables` and `matrices`."""
        columns, closed = {**COLUMNS, **self.own}, {"additionalProperties": False}
        tables = {
            table: each(object_schema({name: columns[name.rstrip("?")] for name in self.tables[table]}) | closed)
            for table in [*self.tables][self.rows_alone :]
        }
        by_name = {"type": "object", "properties": tables, "additionalProperties": False}
        matrices = {name: NESTED | {"description": meaning} for name, meaning in self.matrices.items()}
        return ({"matrices": {"type": "object", "properties": matrices}} if matrices else {}) | {
            "findings": each(TEXT) | {"description": "what the numbers say, in sentences"},
            "tables": by_name | {"description": "lists of rows, by the table's name"},
        }


@dataclass(frozen=True)
class Next:
    """The command to ask next, with options `more`: on `texts`, or on the same text and model where that is None."""

    command: str
    texts: tuple[str, ...] | None = None
    more: tuple[str, ...] = ()
    takes_model: bool = True


def head_choice(row: Mapping[str, Any]) -> str:
    """The head of a table's row as -H takes it: 18.6, or cross:1.1."""
    stream = row.get("stream", "self")
    return f"{'' if stream == 'self' else f'{stream}:'}{row['layer']}.{row['head']}"


def head_name(row: Mapping[str, Any]) -> str:
    """The head of a table's row as sentences and screens name it: 18.6, or cross 1.1."""
    return head_choice(row).replace(":", " ")


@dataclass(frozen=True, eq=False)
class Answer(Displayed):
    """What a command answers: sentences, tables and matrices by name; screens show `shown` rows, None for all."""

    shape: Shape
    findings: tuple[str, ...]
    tables: Mapping[str, Table]
    matrices: Mapping[str, np.ndarray] = field(default_factory=dict)
    shown: int | None = None
    next: Next | None = None

    def __repr__(self) -> str:
        return f"attn {self.name}: " + ", ".join(f"{len(table):,} {name}" for name, table in self.tables.items())

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise InputError(f"attn {self.name} has no {name}", f"it has {', '.join(self.tables)}")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:  # list and dict would ask for 0, 1 ...
        return iter(self.tables)

    @property
    def name(self) -> str:
        """The command's name."""
        return self.shape.name

    def records(self) -> Iterator[dict[str, Any]]:
        """The rows of csv, those of the first table."""
        return iter(next(iter(self.tables.values())))

    def document(self) -> dict[str, Any]:
        """`findings`, `tables` and `matrices` of the JSON object."""
        named = {name: self.matrices[name] for name in self.shape.matrices if name in self.matrices}
        tables = {name: list(self.tables[name]) for name in list(self.tables)[self.shape.rows_alone :]}
        return {"findings": list(self.findings), "tables": tables} | ({"matrices": named} if named else {})

    def arrays(self) -> dict[str, np.ndarray]:
        """The matrices, and every column: those of the first table by their names, others as `table.column`."""
        if self.shape.matrices:
            return dict(self.matrices)
        first = next(iter(self.tables))
        columns = {
            name if of == first else f"{of}.{name}": _array(values)
            for of, table in self.tables.items()
            for name, values in table.columns.items()
        }
        return {**columns, **self.matrices}


def _array(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    missing: Any = "" if any(isinstance(value, str) for value in values) else np.nan
    return np.array([missing if value is None else value for value in values])
