"""The share of attention that is said to rest on a token is that of the rows it is said of."""

import re

import pytest

from tests.cli.test_one_screen import MARY, MINILM, SCREEN, SMOL
from tests.program import attn


@pytest.mark.usefixtures("loads_once")
def test_the_share_is_of_all_rows_or_of_those_that_see_8_keys() -> None:
    for model, text, first in ((SMOL, MARY, 7), (MINILM, "he sat on the river bank", 0)):
        run = attn("inspect", text, "-m", model, terminal=True, env=SCREEN)
        text_of_screen = " ".join(run.text.split())
        said = re.search(r"(\d+)% of all attention rests on 0 \S+, a sink of (\d+) heads", text_of_screen)
        assert said is not None
        assert ("over rows that see 8 keys or more" in text_of_screen) == bool(first)
        rows = attn("top", text, "-m", model, "-k", "1000", "-l", "all", "--json").json["result"]["top"]
        seen = [row["weight"] for row in rows if row["key"] == 0 and row["query"] >= first]
        assert f"{sum(seen) / len(seen):.0%}" == f"{said[1]}%"
        heads: dict[tuple[int, int], list[float]] = {}
        for row in rows:
            if row["key"] == 0 and row["query"] >= first:
                heads.setdefault((row["layer"], row["head"]), []).append(row["weight"])
        means = [sum(weights) / len(weights) for weights in heads.values()]
        n = 1 + max(row["query"] for row in rows)
        uniform = sum(1 / (query + 1 if first else n) for query in range(first, n)) / (n - first)
        assert int(said[2]) == sum(mean > max(0.3, 3 * uniform) for mean in means)
