"""--by value and output: on screens, in data, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from tests.architectures.tiny import tiny_model
from tests.media import tokenizer
from tests.program import attn, refused
from tests.views.test_schemas import hold

TEXT = "the cat sat on a photo"


def saved(kind: str, folder: Path) -> Path:
    tiny_model(kind, "tiny").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("by")
    return {kind: saved(kind, folder / kind) for kind in ("llama", "bert", "bloom", "qwen3_next")}


@pytest.mark.parametrize("by", ["value", "output"])
def test_top_has_shares_beside_weights(models: dict[str, Path], by: str, tmp_path: Path) -> None:
    run = attn("top", TEXT, "-m", models["llama"], "--by", by, "-k", "20", "--json")
    hold(run, "top")
    rows = [row for row in run.json["tables"]["top"] if (row["layer"], row["head"], row["query"]) == (1, 2, 5)]
    shares = [row[f"{by}_share"] for row in rows]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1, abs=1e-5)
    assert sum(row["weight"] for row in rows) == pytest.approx(1, abs=1e-5)
    table = attn("top", TEXT, "-m", models["llama"], "--by", by, "-f", "csv").lines
    assert table[0].endswith(f"score,weight,{by}_share")
    assert attn("matrix", TEXT, "-m", models["llama"], "--by", by, "-o", tmp_path / "a.npz").code == 0
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_allclose(arrays[f"{by}_share"].sum(axis=-1), 1, atol=1e-5)
        assert arrays[f"{by}_share"][1, 2, 5].max() == pytest.approx(shares[0], abs=1e-6)
    hold(attn("matrix", TEXT, "-m", models["llama"], "--by", by, "--json"), "matrix")
    hold(attn("top", TEXT, "-m", models["llama"], "--by", by, "--overall", "--mean", "--json"), "overall")


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("bert", ["--by", "length"], "'length' is not one of"),
        ("bert", ["--by", "value", "--words"], "norms of subwords"),
        ("bloom", ["--by", "value"], "shows its weights alone"),
        ("bloom", ["--by", "output"], "shows its weights alone"),
        ("qwen3_next", ["--by", "output"], "W_O was not found: no matrix is given what its heads give"),
    ],
)
def test_what_is_refused(models: dict[str, Path], kind: str, arguments: list[str], words: str) -> None:
    run = attn("top", TEXT, "-m", models[kind], *arguments)
    refused(run, 2 if kind == "bert" else 3, words)
