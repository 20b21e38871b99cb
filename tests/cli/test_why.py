"""attn why: a cell on a screen and in files; what can't be explained is refused."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

from attn_cli.sources.tables import open_table
from tests.program import attn, refused
from tests.views.test_hostile import HOSTILE, harmless

SENTENCE = "he sat on the river bank"


def test_a_row_for_every_column_adds_up_to_the_log_weight_less_its_mean() -> None:
    rows = list(csv.DictReader(io.StringIO(attn("why", SENTENCE, "-t", "bank", "-k", "6", "-f", "csv").text)))
    assert list(rows[0]) == [
        "layer", "head", "query", "query_token", "key", "key_token", "weight", "score", "mean_score", "content",
        "position", "bias", "rank", "content_rank", "distance_rank", "pair", "columns", "contrast",
    ]  # fmt: skip
    assert len(rows) == 4 * 6 * 16
    x = open_table().vectors[[open_table().words.index(word) for word in SENTENCE.split()]].astype(np.float64)
    for head in range(4):
        part = x[:, 16 * head : 16 * head + 16]
        logs = part @ part[5] / 4
        logs -= np.log(np.exp(logs).sum())
        for key in range(6):
            cell = [row for row in rows if (row["head"], row["key"]) == (str(head), str(key))]
            total = sum(float(row["contrast"]) for row in cell)
            assert total == pytest.approx(logs[key] - logs.mean(), abs=1e-5)
            assert cell[0]["content"] == cell[0]["bias"] == ""
            assert int(cell[0]["rank"]) == 1 + int((logs > logs[key]).sum())


def test_a_key_of_ones_own_choice() -> None:
    run = attn("why", SENTENCE, "-t", "bank", "--key", "river", "-H", "1", "--json")
    (cell,) = run.json["tables"]["why"]
    assert (cell["key_token"], cell["visible"]) == ("river", 6)
    assert "bank attends to 4 river" in attn("why", SENTENCE, "-t", "bank", "--key", "river").text


def test_arrays(tmp_path: Path) -> None:
    assert attn("why", SENTENCE, "-t", "bank", "-k", "2", "-o", tmp_path / "why.npz").code == 0
    arrays = np.load(tmp_path / "why.npz")
    assert arrays["contrasts"].shape == (1, 8, 16)
    assert np.isnan(arrays["contents"]).all()
    np.testing.assert_allclose(arrays["contrasts"].sum(-1), arrays["scores"] - arrays["mean_scores"], atol=1e-6)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_tokens_are_shown_harmless(text: str) -> None:
    run = attn("why", text, "-H", "0")
    assert run.code == 0
    harmless(run.text)


def test_a_long_text_is_not_explained_row_by_row_on_a_screen() -> None:
    refused(attn("why", "river bank " * 40), 2, "80 queries", "-t -1")
    assert attn("why", "river bank " * 40, "-t", "-1", "-k", "1").code == 0


def test_other_misuse() -> None:
    refused(attn("why", SENTENCE, "--key", "lamp"), 2, "no token 'lamp'")


def test_what_a_cell_s_screen_shows_adds_up(llama: Path) -> None:
    line = ("why", "the cat sat on a photo", "-m", llama, "-H", "1.0", "-t", "-1")
    screen = attn(*line, terminal=True, env={"COLUMNS": "80", "NO_COLOR": "1"}).text
    numbers = r"([+-]?[0-9.]+)"
    told = (rf"score {numbers}, mean of \d+ keys {numbers}", rf"    content  {numbers}.*", rf"    position {numbers}.*",
            rf"    pairs   ([^·\n]*)(?:· \d+ others? {numbers}, all {numbers})?")  # fmt: skip
    cells = re.findall("\n".join(told), screen)
    assert len(cells) == 5
    for score, mean, content, position, pairs, others, whole in cells:
        less = round(float(score) - float(mean), 2)
        assert round(float(content) + float(position), 2) == less == float(whole or less)
        if others:
            assert round(sum(map(float, pairs.split()[1::2])) + float(others), 2) == less
