"""attn heads --kinds: the data, and what is refused."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from attn_cli.summaries.reducers.kinds.targets import KINDS
from tests.program import attn, refused, strict_json
from tests.views.test_schemas import hold

TEXT = "the bank of the river bank ."
LONG = " ".join([TEXT] * 8)


def test_without_a_text_random_words_of_a_table_are_read_twice() -> None:
    run = attn("heads", "--kinds", "--json")
    hold(run, "kinds")
    document = strict_json(run.bytes)
    assert document["tables"]["prompts"] == [{"seed": at, "tokens": tokens} for at, tokens in enumerate((74, 100, 122))]
    ids = [[token["id"] for token in text["tokens"]] for text in document["inputs"]]
    assert all(half[: len(half) // 2] == half[len(half) // 2 :] for half in ids)
    assert all(len(set(half)) == len(half) // 2 for half in ids)
    assert attn("heads", "--kinds", "--json").bytes == run.bytes


def test_on_a_text_every_head_has_a_row(tmp_path: Path) -> None:
    run = attn("heads", LONG, "--kinds", "--json")
    hold(run, "kinds")
    rows = list(csv.DictReader(io.StringIO(attn("heads", LONG, "--kinds", "-f", "csv").text)))
    assert list(rows[0])[:8] == ["layer", "head", "kv_head", "kind", "weight", "share", "baseline", "control"]
    assert {f"{kind.name}_{number}" for kind in KINDS for number in ("weight", "baseline")} <= set(rows[0])
    file = tmp_path / "kinds.npz"
    assert attn("heads", LONG, "--kinds", "-o", str(file)).code == 0
    with np.load(file) as arrays:
        assert arrays["kind"].tolist() == [row["kind"] for row in rows]


def test_a_recording_is_judged_on_the_text_that_it_holds(tmp_path: Path) -> None:
    text = "the bank of the river " * 5
    assert attn("inspect", text, "-o", tmp_path / "x.attn").code == 0
    held, live = (attn("heads", "--kinds", *words, "--json") for words in (["-m", tmp_path / "x.attn"], [text]))
    named = [[(row["layer"], row["head"], row["kind"]) for row in run.json["tables"]["kinds"]] for run in (held, live)]
    assert named[0] == named[1] != []
    assert held.json["inputs"][0]["text"] == text


def test_a_short_text_names_nobody_and_says_what_does() -> None:
    run = attn("heads", TEXT, "--kinds")
    assert "too few tokens to name heads" in run.text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("heads", "--kinds", "--sort", "entropy"), "--sort"),
        (("heads", "--kinds", "--pair", "a"), "--pair"),
        (("heads", "--kinds", "-m", "toy:the-cat-sat"), "too few words"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], error: str) -> None:
    refused(attn(*words), 2, error)
