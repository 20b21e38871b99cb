"""The share of attention that is said to rest on a token is that of the rows it is said of."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_one_screen import MARY, MINILM, SCREEN, SMOL
from tests.program import attn


@pytest.mark.usefixtures("loads_once")
def test_the_share_is_of_all_rows_or_of_those_that_see_8_keys(tmp_path: Path) -> None:
    for model, text, first in ((SMOL, MARY, 7), (MINILM, "he sat on the river bank", 0)):
        run = attn("inspect", text, "-m", model, terminal=True, env=SCREEN)
        text_of_screen = " ".join(run.text.split())
        whole = "the attention of rows that see 8 keys or more" if first else "all attention"
        said = re.search(rf"(\d+)% of {whole} rests on 0 \S+, a sink of (\d+) heads", text_of_screen)
        assert said is not None
        assert ("rows that see 8 keys or more" in text_of_screen) == bool(first)
        file = tmp_path / f"{first}.npz"
        assert attn("matrix", text, "-m", model, "-l", "all", "-H", "all", "-o", file).code == 0
        with np.load(file) as arrays:
            on_first = arrays["weights"].astype(np.float64)[..., 0].reshape(-1, arrays["weights"].shape[-2])
        seen = on_first[:, first:]
        assert f"{seen.mean():.0%}" == f"{said[1]}%"
        n = on_first.shape[1]
        uniform = sum(1 / (query + 1 if first else n) for query in range(first, n)) / (n - first)
        assert int(said[2]) == (seen.mean(axis=1) > max(0.3, 3 * uniform)).sum()
