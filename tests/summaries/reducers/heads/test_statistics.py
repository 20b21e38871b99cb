"""What holds for all statistics: one list of them, rows that attend to nothing, columns that say nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.rule import Rule
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.heads.row_numbers import Diagonal, FixedKey
from attn_cli.summaries.reducers.heads.statistic import CellWeight
from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of
from tests.summaries.test_laws import attended

NAMES = [statistic.name for statistic in STATISTICS]


@pytest.mark.parametrize("name", NAMES)
def test_a_statistic_has_a_file_and_a_test_of_its_name(name: str) -> None:
    assert Path(f"attn_cli/summaries/reducers/heads/{name}.py").exists()
    assert Path(__file__).with_name(f"test_{name}.py").exists()


@given(problems(), st.booleans())
def test_masked_rows_are_counted(problem: Problem, tensors: bool) -> None:
    heads = heads_of(problem, tensors=tensors)
    masked = (attended(problem).weights.sum(axis=-1) == 0).sum(axis=-1)
    assert heads.masked_rows.tolist() == masked.tolist()


def test_statistics_are_attributes_and_arrays_in_the_order_of_the_list() -> None:
    heads = heads_of(Problem(*np.ones((3, 2, 4, 2)), Rule(1.0)), tensors=False)
    assert [*heads.arrays()] == [*NAMES, "masked_rows"]
    assert all(getattr(heads, name) is heads.arrays()[name] for name in NAMES)
    with pytest.raises(AttributeError, match="no_such"):
        heads.no_such  # noqa: B018


def weight(nothing: float | None) -> CellWeight:
    return CellWeight(name="x", heading="x", caption="x", meaning="x", cell=FixedKey(0), nothing=nothing)


@pytest.mark.parametrize(
    ("nothing", "values", "empty"),
    [
        (None, [0.0, np.nan], False),
        (0.0, [0.0, 0.0], True),
        (0.0, [0.0, 0.5], False),
        (0.0, [np.nan, np.nan], False),
        (np.nan, [np.nan, np.nan], True),
        (np.nan, [np.nan, 0.0], False),
    ],
)
def test_a_column_of_nothing_else_says_nothing(nothing: float | None, values: list[float], empty: bool) -> None:
    assert weight(nothing).says_nothing(np.array(values)) is empty


def test_what_several_statistics_need_is_equal() -> None:
    assert Diagonal(1) == Diagonal(1) != Diagonal(0)
    assert len({Diagonal(1), Diagonal(1), FixedKey(1)}) == 2
