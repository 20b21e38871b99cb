"""The free memory, as a control group tells it: files that were read are no burden."""

from pathlib import Path

import pytest

from attn_cli.sources import memory


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
