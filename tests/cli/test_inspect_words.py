"""attn inspect without a causal mask: what each word reads; and of any model, with --token: what one token reads."""

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.cli.test_one_screen import MARY, SCREEN, SMOL
from tests.program import attn
from tests.real_models import MINILM
from tests.views.test_schemas import hold

RIVER = "he sat on the river bank"
PIECES = "the unaffable hedgehog was overjoyed"


def read_by_value(text: str, *more: str, column: str = "value_share") -> dict[int, dict[int, float]]:
    """What each token reads of each, or the weight, the mean over layers: of attn top, whose layers come one by one."""
    rows = attn("top", text, *more, "--by", "value", "--mean", "-k", "40", "--json").json["tables"]["top"]
    layers = {row["layer"] for row in rows}
    sums: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        sums[row["query"]][row["key"]] += row[column] / len(layers)
    return sums


def by_word(run: Any) -> list[list[dict[str, Any]]]:
    """For each word what it reads: itself, then others."""
    rows = run["tables"]["reads"]
    return [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["query"])]


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("model", [(), ("-m", str(MINILM))])
def test_words_read_what_top_says_by_value(model: tuple[str, ...]) -> None:
    run = attn("inspect", RIVER, *model, "--json")
    hold(run, "inspect")
    reads, expected = by_word(run.json), read_by_value(RIVER, *model)
    assert [word["query_token"] for word, *_ in reads] == [word["key_token"] for word, *_ in reads] == RIVER.split()
    for word, *sources in reads:
        own = expected[word["query"]]
        assert word["share"] == pytest.approx(own[word["query"]], abs=1e-5)
        shares = [source["share"] for source in sources]
        assert shares == pytest.approx([own[source["key"]] for source in sources], abs=1e-5)
        sinks = {"[CLS]", "[SEP]"}
        tokens = run.json["input"]["tokens"]
        others = [own[at] for at, token in enumerate(tokens) if at != word["query"] and token["text"] not in sinks]
        assert shares == pytest.approx(sorted(others, reverse=True)[:3], abs=1e-5)


@pytest.mark.usefixtures("loads_once")
def test_a_screen_shows_shares_beside_which_weights_are_known() -> None:
    weights = read_by_value(RIVER, "-m", str(MINILM), column="weight")
    run = attn("inspect", RIVER, "-m", MINILM, "--json").json
    bank, river = next(word[:2] for word in by_word(run) if word[0]["query_token"] == "bank")
    assert river["weight"] == pytest.approx(weights[bank["query"]][river["key"]], abs=1e-5)
    screen = attn("inspect", RIVER, "-m", MINILM, terminal=True, env=SCREEN).text
    assert re.search(rf'"bank" 6 +(reads)? +"river" {river["share"]:.2f}', screen)


@pytest.mark.usefixtures("loads_once")
def test_pieces_are_read_as_their_word() -> None:
    run = attn("inspect", PIECES, "-m", MINILM, "--json").json
    reads, expected, tokens = by_word(run), read_by_value(PIECES, "-m", str(MINILM)), run["input"]["tokens"]
    assert len(tokens) > len(reads) + 2  # some words have several tokens
    assert [word["query_token"] for word, *_ in reads] == PIECES.split()
    starts = [word["query"] for word, *_ in reads] + [len(tokens) - 1]
    spans = {start: range(start, stop) for start, stop in itertools.pairwise(starts)}
    for word, *sources in reads:
        rows = spans[word["query"]]
        for source in sources:
            whole = sum(expected[row][key] for row in rows for key in spans[source["key"]]) / len(rows)
            assert source["share"] == pytest.approx(whole, abs=1e-5)


@pytest.mark.usefixtures("loads_once")
def test_a_causal_model_has_no_words_that_read_one_another() -> None:
    assert "reads" not in attn("inspect", MARY, "-m", SMOL, "--json").json["tables"]


@pytest.mark.usefixtures("loads_once")
def test_one_token_shows_what_it_reads_and_what_for() -> None:
    run = attn("inspect", MARY, "-m", SMOL, "-t", "10", terminal=True, env=SCREEN)
    assert run.columns <= 80
    expected = read_by_value(MARY, "-m", str(SMOL), "-t", "10")[10]
    most = max((key for key in expected if key not in (0, 6, 10)), key=lambda key: expected[key])
    assert most == 9
    assert f'"gave" 10 reads "John" 9 most: {expected[9]:.2f} of all that it reads' in run.text
    assert re.search(r'^next +"Mary" 7\d%', run.text, re.MULTILINE)  # what is written after this token
    assert re.search(r'^needs +"John" 9 +-\d', run.text, re.MULTILINE)
    weights = attn("top", MARY, "-m", SMOL, "-t", "10", "-l", "16", "-H", "0", "--json").json["tables"]["top"]
    assert re.search(rf'^  16\.0 +"John" 9 +{weights[0]["weight"]:.2f}', run.text, re.MULTILINE)


def test_a_share_of_next_to_nothing_is_no_finding(tmp_path: Path, llama: Path) -> None:
    """Of a text of forty tokens read evenly no token is said to be read most."""
    text = "the cat sat on a photo of what is here " * 4
    even = tmp_path / "even"
    model = AutoModelForCausalLM.from_pretrained(llama)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "q_proj" in name:
                weights.zero_()
    model.save_pretrained(even)
    AutoTokenizer.from_pretrained(llama).save_pretrained(even)
    run = attn("inspect", text, "-m", even, "-t", "39", terminal=True, env=SCREEN)
    assert re.search(r'no token gets 0\.05 of what "\w+" 39 reads: the most is 0\.0[234]\d', run.text)
