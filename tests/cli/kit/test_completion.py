"""Values that a shell completes."""

from pathlib import Path

import pytest

from attn_cli.sources.tables import TABLE_NAMES
from tests.program import process
from tests.test_rooms import modules_after


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("attn compute --mask cau", ["causal", "causal:2"]),
        ("attn guide t", ["tour"]),
        ("attn top --by ", ["weight", "value"]),
    ],
)
def test_values_complete(words: str, expected: list[str]) -> None:
    variables = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    printed = process(env=variables).text.split("\n")
    assert set(expected) <= set(printed)


def test_files_are_left_to_the_shell() -> None:
    env = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": "attn inspect -m ./my", "COMP_CWORD": "3"}
    assert not process(env=env).text.strip()


@pytest.mark.parametrize(
    ("begin", "names"), [("open", ["openai-community/gpt2"]), ("toy:", [f"toy:{name}" for name in TABLE_NAMES])]
)
def test_names_of_models_complete_without_torch(tmp_path: Path, begin: str, names: list[str]) -> None:
    (tmp_path / "models--openai-community--gpt2").mkdir()
    words = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": f"attn heads -m {begin}", "COMP_CWORD": "3"}
    env = words | {"HF_HUB_CACHE": str(tmp_path)}
    assert process(env=env).text.split() == names
    assert not {"torch", "transformers"} & modules_after(env=env)
