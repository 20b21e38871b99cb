"""attn heads: from A to B by the model's own eager attention; word tables sorted by a number and by what heads do."""

import csv
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from attn_cli.summaries.reducers.kinds.targets import KINDS
from tests.media import audio_file
from tests.program import attn, refused, strict_json
from tests.real_models import MINILM
from tests.views.test_schemas import hold

TEXT = "the embeddings of a bank and of a river bank"


@cache
def eager() -> tuple[list[str], np.ndarray]:
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    given = tokenizer(TEXT, return_tensors="pt")
    model = AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()
    with torch.no_grad():
        weights = model(**given, output_attentions=True).attentions
    return tokenizer.convert_ids_to_tokens(given["input_ids"][0]), torch.cat(weights).numpy()


def asked(*options: object) -> list[dict[str, Any]]:
    return list(csv.DictReader(attn("heads", TEXT, "-m", MINILM, *options, "-f", "csv").lines))


@pytest.mark.parametrize(
    ("options", "queries", "keys"),
    [
        (("-t", "river", "--key", "bank#2"), ["river"], ["bank#2"]),
        (("-t", "river", "--key", "bank"), ["river"], ["bank#1", "bank#2"]),
        (("-t", "bank#1", "--key", "embeddings"), ["bank#1"], ["em", "##bed", "##ding", "##s"]),
        (("-t", "embeddings", "--key", "river bank"), ["em", "##bed", "##ding", "##s"], ["river", "bank#2"]),
        (("--key", "river"), None, ["river"]),
    ],
)
def test_heads_are_sorted_by_that_cell(options: tuple[str, ...], queries: list[str] | None, keys: list[str]) -> None:
    tokens, weights = eager()
    banks = [at for at, token in enumerate(tokens) if token == "bank"]
    places = {"bank#1": banks[0], "bank#2": banks[1]} | {x: at for at, x in enumerate(tokens) if x != "bank"}
    rows = range(len(tokens)) if queries is None else [places[x] for x in queries]
    right = weights[:, :, list(rows)][..., [places[x] for x in keys]].sum(-1).mean(-1)
    found = asked(*options)
    assert [(int(row["layer"]), int(row["head"])) for row in found[:5]] == [
        divmod(int(at), 12) for at in np.argsort(-right.ravel())[:5]
    ]
    for row in found:
        assert float(row["weight"]) == pytest.approx(right[int(row["layer"]), int(row["head"])], abs=1e-5)
    assert len(found) == 72
    run = attn("heads", TEXT, "-m", MINILM, *options, "--json")
    hold(run, "attending")
    assert [str(row["weight"]) for row in run.json["tables"]["heads"]] == [row["weight"] for row in found]


def test_a_later_key_and_a_wrong_word_are_said(seeing: Any, tmp_path: Path) -> None:
    later = attn("heads", "the cat sat", "-m", "toy:the-cat-sat", "-t", "the", "--key", "lamp")
    refused(later, 2, "no token 'lamp'", "tokens: 0 the")
    refused(attn("heads", "the cat", "-t", "cat"), 2, "--token needs --key")
    tone = audio_file(tmp_path / "tone.wav")
    run = attn("heads", "-m", seeing("whisper"), "--audio", tone, "--pair", "the cat", "-t", "cat", "--key",
               "0.10s", "-q")  # fmt: skip
    assert any(line.startswith("cross ") and 'to "0.10s" 5 from "cat" 2' in line for line in run.lines)
    masked = attn("heads", "-m", seeing("whisper"), "--audio", tone, "--pair", "the cat", "-t", "the", "--key",
                  "cat", "-q")  # fmt: skip
    assert masked.lines[-1] == 'no head attends to "cat" 2 from "the" 1'


TWICE = "he sat on the river bank and he sat on the loan"


def heads(*options: str) -> list[dict[str, Any]]:
    return attn("heads", TWICE, "--json", *options).json["tables"]["heads"]


@pytest.mark.parametrize(
    ("sort", "column", "sign"),
    [
        ("entropy", "entropy_bits", 1), ("-entropy", "entropy_bits", -1), ("entropy (bits)", "entropy_bits", 1),
        ("Induction", "induction_weight", -1), ("self_weight", "self_weight", -1), ("-self", "self_weight", 1),
    ],
)  # fmt: skip
def test_the_order_is_that_of_the_column(sort: str, column: str, sign: int) -> None:
    everyone = heads()
    assert heads("--sort", sort) == sorted(everyone, key=lambda row: sign * row[column])
    assert heads("--sort", sort, "--top", "2") == heads("--sort", sort)[:2]


def test_chosen_heads_keep_their_names_on_the_screen() -> None:
    lines = attn("heads", TWICE, "-H", "2,3").lines
    assert [line.split()[0] for line in lines if line.startswith("  0.")] == ["0.2", "0.3"]


BANKS = " ".join(["the bank of the river bank ."] * 8)


def test_without_a_text_random_words_of_a_table_are_read_twice() -> None:
    run = attn("heads", "--kinds", "--json")
    hold(run, "kinds")
    document = strict_json(run.bytes)
    assert document["tables"]["prompts"] == [{"seed": at, "tokens": tokens} for at, tokens in enumerate((74, 100, 122))]
    ids = [[token["id"] for token in text["tokens"]] for text in document["inputs"]]
    assert all(half[: len(half) // 2] == half[len(half) // 2 :] for half in ids)
    assert all(len(set(half)) == len(half) // 2 for half in ids)
    assert attn("heads", "--kinds", "--json").bytes == run.bytes
    listed = attn("heads", "--kinds", "-v", "-m", MINILM, terminal=True).text.split()
    assert {f"{layer}.{head}" for layer in range(6) for head in range(12)} <= {*listed} and "ids" not in listed


def test_on_a_text_every_head_has_a_row(tmp_path: Path) -> None:
    run = attn("heads", BANKS, "--kinds", "--json")
    hold(run, "kinds")
    rows = list(csv.DictReader(io.StringIO(attn("heads", BANKS, "--kinds", "-f", "csv").text)))
    assert list(rows[0])[:8] == ["layer", "head", "kv_head", "kind", "weight", "share", "baseline", "control"]
    assert {f"{kind.name}_{number}" for kind in KINDS for number in ("weight", "baseline")} <= set(rows[0])
    file = tmp_path / "kinds.npz"
    assert attn("heads", BANKS, "--kinds", "-o", str(file)).code == 0
    with np.load(file) as arrays:
        assert arrays["kind"].tolist() == [row["kind"] for row in rows]
