"""A model that isn't cached is refused at once where the hub must not be asked, with those that are."""

import subprocess
import sys
from pathlib import Path

from tests.program import SHORT, environment


def test_an_id_that_is_not_cached_is_refused_before_torch_is_imported(tmp_path: Path) -> None:
    for name in ("openai--gpt2-medium", "org--other"):
        (tmp_path / f"models--{name}").mkdir()
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "attn_cli", "heads", "a b", "-m", "gpt2-medum", "--offline"],
        env=environment(HF_HUB_CACHE=str(tmp_path)), capture_output=True, text=True, timeout=SHORT, check=False,
    )  # fmt: skip
    errors = [line for line in run.stderr.splitlines() if not line.startswith("import time")]
    assert run.returncode == 3
    assert errors[0] == "attn: gpt2-medum: offline, and not in the cache"
    assert "did you mean openai/gpt2-medium? cached: openai/gpt2-medium, org/other" in errors[1]
    assert "| torch\n" not in run.stderr.replace("  ", "")
    assert "transformers" not in run.stderr
