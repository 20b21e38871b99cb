"""Shared by all tests: golden files, a clean terminal environment, and the tests that --fast leaves out."""

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from rich.cells import cell_len

from tests.program import TERMINAL_VARIABLES

os.environ["ATTN_CACHE"] = ""  # nothing that tests run is kept in the user's cache
if "TESTS_UNPACKED" not in os.environ:  # of a run and all its processes
    os.environ["TESTS_UNPACKED"] = tempfile.mkdtemp(prefix="attn-tests-")

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
SCREEN_WIDTHS = (40, 60, 80, 120, 200)
_COPIED = ("next: ", "attn ")  # commands, which stay lines that can be copied
FAST_EXAMPLES, EXAMPLES, SEARCH_EXAMPLES = 5, 40, 1000  # of a test with generated inputs
# What a file of tests says where it loads a model or starts a process, which takes seconds.
_SLOW = re.compile(
    r"sources\.huggingface|transformers|minilm_folder|smollm_file|seeing|real_models|loads_once|selenium"
    r"|pexpect|subprocess|modules_after|import saved|import .*\b(process|program)\b|ray_workers"
    r"|tests\.(architectures|tools|explore\.(playing|terminal)|media|test_guide)"
)
# Files of tests of a quarter of a minute and more, which are shared out first.
_NAMES = "expect expect_planted fused guide hostile one_screen reducer walk"
_LONGEST = {f"test_{name}.py" for name in _NAMES.split()}
_left_out: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite tests/golden/ from what the program prints.")
    parser.addoption(
        "--fast", action="store_true", help="Leave out files that are long, load a model, start a process."
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("fast" if config.getoption("--fast") else "attn")
    if hasattr(config, "workerinput"):  # one of several processes, which have a core each: threads would only wait
        import torch

        torch.set_num_threads(1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast, whether a file is left out, before anything that it needs is imported."""
    if not config.getoption("--fast") or collection_path.suffix != ".py" or not is_slow(collection_path):
        return None
    _left_out.append(str(collection_path.relative_to(ROOT)))
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of processes that share the tests, none is left with a long file at the end: those come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    """What is imported by now stays, so no collection of garbage looks at it again, which takes 0.2 s each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What stayed can be freed again, or libraries would tell at the end that it leaks; unpacked models go."""
    gc.unfreeze()
    if not hasattr(session.config, "workerinput"):
        shutil.rmtree(os.environ["TESTS_UNPACKED"], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With --fast, what was left out."""
    if config.getoption("--fast"):
        tests = sorted(name for name in _left_out if "/test_" in name)
        terminalreporter.write_line(f"generated inputs: {FAST_EXAMPLES} in place of {EXAMPLES} a test")
        terminalreporter.write_line(
            f"left out, for they are long, load a model or start a process: {len(tests)} files of tests"
        )
        for name in tests:
            terminalreporter.write_line(f"  {name}")


def is_slow(file: Path) -> bool:
    """True if a file is long, loads a model or starts a process; doctests of the models' package do, too."""
    if file.is_relative_to(ROOT / "tests"):
        is_named = file.name in _LONGEST or _SLOW.search(file.read_text("utf-8")) is not None
        return file.name != "conftest.py" and is_named
    return file.is_relative_to(ROOT / "attn_cli/sources/huggingface")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file of tests/golden/, or writes the file with --update-golden."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.write_text(text, "utf-8")
        assert text == file.read_text("utf-8"), f"pytest --update-golden rewrites tests/golden/{name}"

    return check


@pytest.fixture
def golden_screen(golden: Callable[[str, str], None]) -> Callable[[str, Callable[[int], str]], None]:
    """A screen that no terminal cuts, with a golden file at 80 columns; `draw` gives it for a number of columns."""

    def check(name: str, draw: Callable[[int], str]) -> None:
        for width in SCREEN_WIDTHS:
            text = draw(width)
            assert "\x1b" not in text
            assert max(cell_len(line) for line in text.splitlines() if not line.startswith(_COPIED)) <= width
            if width == 80:
                golden(f"{name}-80.txt", text)

    return check


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours and widths are what a test says, not what the terminal says from which the tests were started."""
    for name in TERMINAL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process load each model once: for files of many commands on models."""
    from tests.loaded import load_once  # here: torch takes seconds, too

    monkeypatch.setattr("attn_cli.sources.huggingface.load.checkpoint.load", load_once)


# No clock decides: the first call of an array library takes seconds on a slow machine.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same inputs every time, so that a change is judged by what it changed; "search" looks for others.
settings.register_profile("attn", _PATIENT, derandomize=True, max_examples=EXAMPLES)
settings.register_profile("fast", _PATIENT, derandomize=True, max_examples=FAST_EXAMPLES)
settings.register_profile("search", _PATIENT, derandomize=False, max_examples=SEARCH_EXAMPLES)
