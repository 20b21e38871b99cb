"""A model that isn't cached is refused at once where the hub must not be asked, with those that are."""

import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.cache import commit_of
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.program import SHORT, environment
from tests.sources.huggingface.models import tiny


def test_an_id_that_is_not_cached_is_refused_before_torch_is_imported(tmp_path: Path) -> None:
    for name in ("openai--gpt2-medium", "org--other"):
        (tmp_path / f"models--{name}").mkdir()
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "attn_cli", "heads", "a b", "-m", "gpt2-medum"],
        env=environment(HF_HUB_CACHE=str(tmp_path), HF_HUB_OFFLINE="1"),
        capture_output=True, text=True, timeout=SHORT, check=False,
    )  # fmt: skip
    errors = [line for line in run.stderr.splitlines() if not line.startswith("import time")]
    assert run.returncode == 3
    assert errors[0] == "attn: gpt2-medum: offline, and not in the cache"
    assert "did you mean openai/gpt2-medium? cached: openai/gpt2-medium, org/other" in errors[1]
    assert "| torch\n" not in run.stderr.replace("  ", "")
    assert "transformers" not in run.stderr


def test_a_model_of_the_hub_is_told_with_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, repository = "0123456789abcdef" * 2 + "01234567", tmp_path / "models--a--b"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    tiny("bert").save_pretrained(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert (commit_of("a/b"), commit_of("a/b", commit), commit_of("a/c")) == (commit, commit, None)
    (repository / "refs" / "v1").write_text(commit)
    for name in ("a/b", "a/b@v1", f"a/b@{commit}"):
        about = load(find(name, OriginOptions(reads_text=False))).about
        assert (about["model"], about["revision"]) == (name, commit)
    with pytest.raises(LoadError, match="a/b@v2: offline, and not in the cache") as refusal:
        find("a/b@v2", OriginOptions())
    assert refusal.value.hint.endswith("with a network: hf download a/b --revision v2")
