"""The matrix beside the findings on a wide screen, below them on others; nothing is lost, and nothing is too wide."""

import pytest

from tests.program import attn

TEXT = "the cat sat on the river bank"


def lines_of(width: int) -> list[str]:
    run = attn("inspect", TEXT, terminal=True, env={"COLUMNS": str(width), "LINES": "50", "NO_COLOR": "1"})
    assert run.columns <= width
    return run.lines


def test_findings_and_matrix_stand_side_by_side_where_both_fit() -> None:
    lines = lines_of(200)
    row = next(line for line in lines if "rows = queries" in line)
    assert row[80:83] == "   " and row[83:].startswith("layer 0 head")
    assert row[:80].strip()
    assert len(lines) < len(lines_of(80))


def test_the_left_column_is_what_a_narrow_screen_says_above_the_matrix() -> None:
    narrow, wide = lines_of(80), lines_of(200)
    findings = narrow[3 : next(at for at, line in enumerate(narrow) if line.startswith("head 0."))]
    assert len(findings) > 8
    left = [line[:80].rstrip() for line in wide]
    assert all(line in left for line in findings)


@pytest.mark.parametrize("width", [40, 80, 158])
def test_a_narrow_screen_has_the_matrix_below(width: int) -> None:
    lines = lines_of(width)
    assert any(line.startswith("layer 0 head") for line in lines)
