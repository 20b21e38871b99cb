"""The ratchet says what is exceeded, and by how much."""

from tests.size import exceeded


def test_what_is_larger_is_named_and_what_is_not_is_not() -> None:
    sizes = {"files": 10.0, "classes": 3.0, "docstring share %": 20.6}
    limits = {"files": 10.0, "classes": 4.0, "docstring share %": 20.5}
    assert exceeded(sizes, limits) == ["docstring share %: 20.6, 0.1 above 20.5"]
    assert exceeded({"lines of a new room": 7.0}, {}) == ["lines of a new room: 7, 7 above 0"]
