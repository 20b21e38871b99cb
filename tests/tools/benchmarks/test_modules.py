"""Every benchmark can be imported: what it measures stands where it says."""

from importlib import import_module
from pathlib import Path

import pytest

MODULES = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith(("test_", "__")))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_imports(name: str) -> None:
    assert import_module(f"tests.tools.benchmarks.{name}")
