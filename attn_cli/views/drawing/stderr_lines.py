"""Lines that stand above a report on the same screen: notes that were printed before it."""

_lines = [0]


def add(lines: int) -> None:
    """Note that so many lines were printed on the terminal."""
    _lines[0] += lines


def taken() -> int:
    """The lines printed since the last report."""
    lines, _lines[0] = _lines[0], 0
    return lines
