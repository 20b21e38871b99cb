"""attn knock: the heads by what the answer loses, on every width, in every format; wrong use is one line."""

from pathlib import Path

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaMLP

from attn_cli.model.intervention import Change
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.knock import knock
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold

TEXT = "the cat sat on a photo"


def test_data_has_every_head(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "-k", "1", "--json")
    hold(run, "knock")
    heads = run.json["tables"]["heads"]
    assert sorted((head["layer"], head["head"]) for head in heads) == [(x, y) for x in range(2) for y in range(4)]
    assert [head["bits"] for head in heads] == sorted(head["bits"] for head in heads) and heads[0]["bits"] < -0.05
    assert run.json["tables"]["answer"][0]["row"] == 6  # </s>, which the tokenizer puts there, is left out
    assert all(head["kv_head"] == head["head"] // 2 for head in heads)


def test_heads_together_and_one_by_one(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "--together", "0.1,1.2", "--json")
    hold(run, "knock")
    heads, (together,) = run.json["tables"]["heads"], run.json["tables"]["together"]
    assert {(head["layer"], head["head"]) for head in heads} == {(0, 1), (1, 2)}
    assert together["bits"] != pytest.approx(sum(head["bits"] for head in heads), abs=1e-6)


def test_everywhere_has_the_loss_of_the_text(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "--everywhere", "-H", "0", "--json")
    hold(run, "knock")
    assert [row["row"] for row in run.json["tables"]["rows"]] == list(range(7))
    assert all(head["loss_bits"] is not None for head in run.json["tables"]["heads"])


def test_other_rows_and_what_was_written(llama: Path) -> None:
    picked = attn("knock", TEXT, "-m", llama, "-t", "cat", "-H", "0.1", "--json").json["tables"]
    assert [row["row"] for row in picked["rows"]] == [2]
    written = attn("knock", TEXT, "-m", llama, "--generate", "3", "-H", "0.1", "--json")
    hold(written, "knock")
    tables = written.json["tables"]
    assert tables["run"][0]["generated"]
    assert [token["row"] for token in tables["answer"]] == [row["row"] for row in tables["rows"]]


def test_lines_are_answered_one_by_one(llama: Path) -> None:
    run = attn("knock", "-m", llama, "--lines", "-H", "0.1", "--json", stdin=b"the cat\n\xff\na photo of\n")
    assert run.code == 2
    assert len(run.lines) == 2
    assert "line 2" in run.errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "toy"), "attn knock runs a model"),
        (("-H", "9.9"), "there is no layer 9"),
        (("-H", "0.9"), "there is no head 0.9"),
        (("-t", "dog"), "no token 'dog'"),
        (("-t", "cat", "--everywhere"), "--token and --everywhere"),
        (("--mean",), "mean ablation over 7 rows"),
        (("--together", "0.1", "-H", "1"), "--together and --layer or --head"),
        (("--together", "x"), "x"),
    ],
)
def test_wrong_use_is_one_line(llama: Path, options: tuple[str, ...], words: str) -> None:
    refused(attn("knock", TEXT, "-m", llama, *options), 2, words)


def test_positions_are_refused_where_every_row_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSource, "experiment", lambda *_, **__: pytest.fail("the baseline ran"))
    run = attn("knock", "the river bank", "-m", MINILM, "-t", "bank")
    refused(run, 2, "--token is for models that choose next tokens")


def test_the_key_that_the_most_needed_head_reads_is_masked(llama: Path) -> None:
    source = open_source(str(llama), predicts=True)
    prompt = source.read([TEXT])[0]
    found = knock(source, TEXT)
    experiment = source.experiment(prompt)
    (hidden,), key = found["hidden"], found["heads"][0]["key"]
    assert key != found["rows"][0]["row"]
    (expected,) = experiment.outcomes([Change(hidden=(key,))])
    assert hidden["key"] == key and hidden["bits"] == pytest.approx(expected.bits, abs=1e-4)


@pytest.mark.parametrize(("command", "most"), [("knock", 1.2), ("inspect", 1.5)])
def test_a_long_text_is_run_once_and_its_last_rows_again(
    command: str, most: float, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []  # of each call of a block
    forward = LlamaMLP.forward

    def counted(mlp: LlamaMLP, x: torch.Tensor) -> torch.Tensor:
        rows.append(x[..., 0].numel())
        return forward(mlp, x)

    monkeypatch.setattr(LlamaMLP, "forward", counted)
    assert attn(command, " ".join(f"{TEXT} of cat {at}." for at in range(60)), "-m", llama).code == 0
    layers = rows.count(max(rows))
    assert max(rows) > 500 and layers == 2
    assert sum(rows) / (layers * max(rows)) < most
