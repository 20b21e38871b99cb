"""Values that a shell completes."""

from pathlib import Path

import pytest

from tests.program import process


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("attn inspect -m toy:", ["toy:minilm", "toy:the-cat-sat"]),
        ("attn inspect -m my", ["my-model/", "my.gguf"]),
        ("attn compute --mask cau", ["causal", "causal:2"]),
        ("attn top -f js", ["json", "jsonl"]),
        ("attn schema he", ["heads"]),
    ],
)
def test_values_complete(words: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my.gguf").touch()
    (tmp_path / "my.txt.bak").touch()
    variables = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    printed = process(env=variables).text.split("\n")
    assert set(expected) <= set(printed)
    assert "my.txt.bak" not in printed
