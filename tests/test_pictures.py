"""The pictures of README and guide are real screens, and current."""

import pytest

from tests.conftest import GOLDEN
from tests.test_guide import compare
from tests.tools.pictures import PICTURES, lines_of

pytestmark = pytest.mark.usefixtures("loads_once")


@pytest.mark.parametrize("name", ["front-light.svg", "explore-light.svg"])
def test_a_picture_has_the_text_of_the_screen(name: str) -> None:
    kept, current = (GOLDEN / name).read_text("utf-8"), PICTURES[name]().decode()
    problem = compare(lines_of(kept), lines_of(current))
    assert not problem, f"python -m tests.tools.pictures draws it anew\n{problem}"
