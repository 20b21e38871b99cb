"""attn heads: from A to B by the model's own eager attention."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tests.media import audio_file
from tests.program import attn, refused
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


def test_the_first_line_is_the_finding_and_a_screen_lists_few() -> None:
    tokens, weights = eager()
    cells = weights[:, :, tokens.index("river"), len(tokens) - 2]
    layer, head = divmod(int(cells.argmax()), 12)
    run = attn("heads", TEXT, "-m", MINILM, "-t", "river", "--key", "bank#2", terminal=True, env={"NO_COLOR": "1"})
    said = f'{layer}.{head} attends most to "bank" 13 from "river" 12: {cells.max():.2f}'
    assert run.lines[4] == said
    assert len([line for line in run.lines if "█" in line]) == 15
    assert attn("top", TEXT, "-m", MINILM, "-t", "river", "--key", "bank#2").lines[4] == said
    both = attn("heads", TEXT, "-m", MINILM, "-t", "river", "--key", "bank", "-k", "2")
    assert "bank#2 picks the second" in both.errors
    assert both.lines[5] == "sum over 2 keys"


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
