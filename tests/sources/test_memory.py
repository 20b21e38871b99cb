"""The free memory, as a control group tells it: files that were read are no burden. The memory that was held."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attn_cli.sources import memory
from tests.program import SHORT


def test_files_that_a_group_has_read_are_given_up_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = memory.free_memory()
    assert without is None or without > 0
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 200\ninactive_file 500\nactive_file 100\n")
    monkeypatch.setattr(memory, "_CONTROL_GROUP", tmp_path)
    assert memory.free_memory() == 1000 - (900 - 500 - 100)
    assert memory.free_memory(swap=True) == 700
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() != 700


_PEAK = """
from attn_cli.sources.memory import peak_memory
print(peak_memory())
held = bytearray(80_000_000)
print(peak_memory())
"""


def test_the_peak_of_a_process_is_its_own_and_not_that_of_the_one_that_started_it() -> None:
    held = np.ones(25_000_000)  # 200 MB
    done = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, timeout=SHORT, check=True)
    before, after = map(int, done.stdout.split())
    assert before < held.nbytes / 2
    assert 79_000_000 < after - before < 90_000_000
