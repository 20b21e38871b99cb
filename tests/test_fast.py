"""`bash tests/run --fast` leaves out tests that load a model or start a process, by themselves or by their imports."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, is_slow


@pytest.mark.parametrize(
    "file",
    [
        "tests/cli/test_process.py",  # starts processes
        "tests/cli/test_steps.py",  # names a model's package
        "tests/sources/huggingface/load/test_origin.py",  # imports the loader
        "tests/test_front_image.py",  # imports a file that does
        "attn_cli/sources/huggingface/source.py",  # its doctests would import torch
    ],
)
def test_what_is_slow_is_left_out(file: str) -> None:
    assert is_slow(ROOT / file)


@pytest.mark.parametrize(
    "file",
    ["tests/kernel/bands/test_bands.py", "tests/summaries/test_laws.py", "tests/views/test_hostile.py",
     "tests/cli/test_errors.py", "attn_cli/kernel/definition/dense.py"],
)  # fmt: skip
def test_what_is_quick_is_run(file: str) -> None:
    assert not is_slow(ROOT / file)


def test_a_file_that_names_neither_is_quick_until_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conftest.ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    for name, text in (
        ("test_a", "from pathlib import Path"),
        ("test_b", "import subprocess"),
        ("test_c", "from tests.test_b import x"),
        ("test_d", "def test(smollm_file): pass"),
        ("test_e", "from tests.program import attn"),
        ("test_f", "from tests.program import process"),
    ):
        (tmp_path / "tests" / f"{name}.py").write_text(text)
    quick = [file.stem for file in sorted((tmp_path / "tests").iterdir()) if not is_slow(file)]
    assert quick == ["test_a", "test_e"]
