"""attn top --why writers: a score as a sum over who wrote query and key, on screens and in files; refusals."""

import csv
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_by import saved
from tests.program import attn, refused
from tests.views.test_schemas import hold
from tests.views.webpage.test_build import document

TEXT = "the cat sat on a photo"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("writers")
    return {kind: saved(kind, folder / kind) for kind in ("llama", "bloom")}


def test_the_page_says_what_the_screen_says(models: dict[str, Path], tmp_path: Path) -> None:
    """Of the strongest cell of a head that stands out; without a model there are none."""
    page = tmp_path / "page.html"
    assert attn("inspect", TEXT, "-m", models["llama"], "-o", page).code == 0
    told = document(page.read_bytes())
    head = next(head for head in told["work"]["heads"] if head["written"])
    layer = told["layers"][head["layer"]]
    place = f"{layer['layer']}.{layer['heads'][head['head']]}"
    ask = ("top", TEXT, "-m", models["llama"], "-H", place, "-t", str(head["cell"][0]), "-k", "1", "--why", "writers")
    screen = attn(*ask, env={"COLUMNS": "68"}, terminal=True).text
    assert len(head["written"]) > 8 and set(head["written"]) <= set(re.sub(r"\x1b\[[\d;]*m", "", screen).splitlines())


def test_the_writers_of_a_cell_in_files(models: dict[str, Path], tmp_path: Path) -> None:
    """Terms are the largest of all pairs, which arrays have; sums over one side are theirs."""
    ask = ("top", TEXT, "-m", models["llama"], "-H", "1.2", "-t", "-1", "-k", "1")
    run = attn(*ask, "--why", "writers", "--json")
    hold(run, "writers")
    (cell,) = run.json["result"]["writers"]
    assert attn(*ask, "--why", "writers", "-o", tmp_path / "writers.npz").code == 0
    arrays = np.load(tmp_path / "writers.npz")
    pairs, names = arrays["pairs_0"], arrays["writers_0"].tolist()
    assert pairs.sum() == pytest.approx(cell["product_contrast"], abs=1e-5)
    assert cell["product_contrast"] == pytest.approx(cell["contrast"], abs=1e-5)
    assert cell["difference"] < 1e-5 and cell["floor"] < 1e-5 and cell["not_split"] is None
    first = cell["terms"][0]
    at = (names.index(first["query_writer"]), names.index(first["key_writer"]))
    assert abs(pairs[at]) == abs(pairs).max() and first["contrast"] == pytest.approx(pairs[at], abs=1e-6)
    for side, axis in (("query", 1), ("key", 0)):
        sums = dict(zip(names, pairs.sum(axis=axis).tolist(), strict=True))
        assert {row["writer"]: row["contrast"] for row in cell[f"{side}_writers"]} == pytest.approx(sums, abs=1e-6)
        rows = list(csv.DictReader(io.StringIO(attn(*ask, "--why", "writers", "--of", side, "-f", "csv").text)))
        assert {row[f"{side}_writer"]: float(row["contrast"]) for row in rows} == pytest.approx(sums, abs=1e-6)
        assert {row["query_writer" if side == "key" else "key_writer"] for row in rows} == {""}


def test_a_row_that_sees_one_key_has_nothing_over_the_mean_key(models: dict[str, Path]) -> None:
    run = attn("top", TEXT, "-m", models["llama"], "-H", "1.0", "-t", "0", "-k", "1", "--why", "writers", "--json")
    (cell,) = run.json["result"]["writers"]
    assert (cell["weight"], cell["contrast"]) == (1.0, 0.0)
    assert {(term["contrast"], term["weight_without"]) for term in cell["terms"]} == {(0.0, 1.0)}


def test_a_key_against_another(models: dict[str, Path]) -> None:
    """Swapped keys turn every sign; the scores are those of attn top."""
    ask = ("top", TEXT, "-m", models["llama"], "-H", "1.0", "-t", "-1", "--why", "writers", "--json")
    one, other = (
        attn(*ask, "--key", key, "--against-key", against).json["result"]["writers"][0]
        for key, against in (("1", "2"), ("2", "1"))
    )
    assert (one["against"], other["against"]) == (2, 1)
    scores = {row["key"]: row["score"] for row in attn(*ask[:8], "-k", "9", "--json").json["result"]["top"]}
    assert one["contrast"] == pytest.approx(scores[1] - scores[2], abs=1e-5) == pytest.approx(-other["contrast"])
    signs = {(row["query_writer"], row["key_writer"]): row["contrast"] for row in one["terms"]}
    for row in other["terms"]:
        assert signs[row["query_writer"], row["key_writer"]] == pytest.approx(-row["contrast"], abs=1e-6)


def test_the_screen_walks_on_to_the_strongest_head(models: dict[str, Path]) -> None:
    ask = ("top", TEXT, "-m", models["llama"], "-H", "1.2", "-t", "-1", "-k", "1", "--why", "writers")
    screen = attn(*ask, terminal=True, env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert "all pairs add up to" in screen.text and "norms held at this pass" in screen.text
    assert "other pairs" in screen.text and " -> " in screen.text
    walk = screen.text.partition("next:")[2]
    assert walk.startswith(" attn knock ") and "-H 0." in walk
    assert attn(*shlex.split(walk)[1:], terminal=True).code == 0
    first = attn(
        "top", TEXT, "-m", models["llama"], "-H", "0.1", "-t", "-1", "-k", "1", "--why", "writers", terminal=True
    )
    walk = first.text.partition("next:")[2]
    assert walk.startswith(" attn knock ") and "-H 0.1" in walk  # no head wrote before the first layer


def test_the_value_of_why_may_be_left_out(models: dict[str, Path]) -> None:
    """The word after --why is a text unless it is one of its choices."""
    run = attn("top", "-m", models["llama"], "-H", "1.2", "-t", "-1", "--why", TEXT, "--json")
    assert run.json["schema"].startswith("attn.why/")
    run = attn("top", "-m", models["llama"], "-H", "1.2", "-t", "-1", "--why", "--", "writers", "--json")
    assert run.code == 2
    run = attn("top", "-m", models["llama"], "-H", "1.2", "-t", "-1", "--json", "--why", "--", "writers")
    assert run.json["schema"].startswith("attn.why/")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--why", "writers"], "--why writers takes one head, or a few"),
        (["--of", "key", "-H", "1.0", "--why"], "--of needs --why writers"),
        (["--against-key", "1", "-H", "1.0"], "--against-key needs --why writers"),
        (["--why", "writers", "--mean", "-H", "1.0"], "--why and --mean at once"),
    ],
)
def test_what_writers_can_not_be_asked(models: dict[str, Path], options: list[str], words: str) -> None:
    refused(attn("top", TEXT, "-m", models["llama"], *options), 2, words)


def test_tables_and_attention_without_queries_have_no_writers(models: dict[str, Path]) -> None:
    refused(attn("top", TEXT, "--why", "writers", "-H", "0"), 2, "runs a model")
    refused(attn("top", TEXT, "-m", models["bloom"], "--why", "writers", "-H", "1.0"), 3, "shows no q and k")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_screens(models: dict[str, Path], width: int) -> None:
    ask = ("top", TEXT, "-m", models["llama"], "-H", "1.2", "-t", "-1", "-k", "2", "--why", "writers")
    for more in ([], ["--of", "key"], ["--of", "query"], ["--against-key", "1"]):
        screen = attn(*ask, *more, terminal=True, env={"COLUMNS": str(width), "NO_COLOR": "1"})
        assert screen.code == 0 and screen.columns <= width
