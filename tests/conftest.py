"""What all tests share: golden files, and a clean slate for what a terminal says."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.program import TERMINAL_VARIABLES

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite tests/golden/ from what the program prints.")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file of tests/golden/, or writes the file with --update-golden."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.write_text(text, "utf-8")
        assert text == file.read_text("utf-8"), f"pytest --update-golden rewrites tests/golden/{name}"

    return check


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours and widths are what a test says, not what the terminal says from which the tests were started."""
    for name in TERMINAL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


settings.register_profile("attn", deadline=None)  # the first call of an array library takes seconds on a slow machine
settings.load_profile("attn")
