"""attn heads --kinds says which of the heads that find content copy; a second look says it without the model."""

import re
from pathlib import Path

import pytest

from attn_cli.cli.kit.options import model as model_options
from tests.media import WORDS, saved, tokenizer
from tests.program import attn
from tests.summaries.told.copying_model import copying_model
from tests.views.test_schemas import hold

TEXT = " ".join((WORDS * 4)[:46])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(copying_model(), tmp_path_factory.mktemp("copying") / "copying", tokenizer(), strength=1)


def test_heads_that_copy_and_suppress_have_a_line_each(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = {"ATTN_CACHE": str(tmp_path / "cache"), "COLUMNS": "80"}
    run = attn("heads", "--kinds", TEXT, "-m", folder, env=cache)
    said = " ".join(run.text.split())
    assert "3 of 3 heads look at what followed this token before (induction); 1 of them copies" in said
    assert "1 of them suppresses: what they write lowers the token that they read, 0.1 by" in said
    assert re.search(r" 0\.0 [\d./]+ copies: \+[\d.]+, shuffled \+[\d.]+, p 0\.001, rank 1 in 34 of 34 ", said)
    assert re.search(r" 0\.1 [\d./]+ suppresses: -[\d.]+, .+? 0\.2 [\d./]+ no copy: ", said)

    def refuse(*names: object, **options: object) -> object:
        raise AssertionError("a model is opened")

    monkeypatch.setattr(model_options, "open_source", refuse)
    again = attn("heads", "--kinds", TEXT, "-m", folder, env=cache)
    assert again.text.partition("\n\n")[2] == run.text.partition("\n\n")[2]
    assert again.errors.endswith("is left out: the text goes on\n") and again.errors.count("\n") == 1


def test_data_has_every_number(folder: Path) -> None:
    run = attn("heads", "--kinds", TEXT, "-m", folder, "--json")
    hold(run, "kinds")
    copying = run.json["result"]["copying"]
    assert [(head["copies"], head["suppresses"]) for head in copying["heads"]] == [
        (True, False), (False, True), (False, False)
    ]  # fmt: skip
    assert copying["vocabulary"] == 24 and copying["obstacle"] == ""


def test_a_look_that_told_it_of_no_head_runs_the_model_once_more(folder: Path, tmp_path: Path) -> None:
    """A run that another command has kept holds no such thing."""
    cache = {"ATTN_CACHE": str(tmp_path / "cache")}
    assert attn("inspect", TEXT, "-m", folder, env=cache).code == 0
    assert "1 of them copies" in " ".join(attn("heads", "--kinds", TEXT, "-m", folder, env=cache).text.split())
    recorded = tmp_path / "x.attn"
    assert attn("inspect", TEXT, "-m", folder, "-o", recorded).code == 0
    said = " ".join(attn("heads", "--kinds", "-m", recorded).text.split())
    assert "attn heads --sort logit what they write" in said and "copies" not in said
