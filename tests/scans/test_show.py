"""attn scan show: the tables' numbers as screens and data, examples that open, and what differs between two scans."""

import csv
import io
import json
import random
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from attn_cli.scans import texts
from attn_cli.scans.results import estimates, two_sided_p
from attn_cli.scans.scan import scan
from attn_cli.scans.show import Scan, differences_of, open_scan
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.summaries.answer import head_choice
from attn_cli.summaries.reducers.heads import STATISTICS
from tests.program import attn, refused, strict_json
from tests.real_models import MINILM
from tests.views.test_golden import GoldenScreen, on_screen
from tests.views.test_schemas import hold

NAMES = [statistic.name for statistic in STATISTICS]
WORDS = ["he", "sat", "on", "the", "river", "bank", "loan", "from", "[bold]", "cat", ".", "ninety-nine", "Weltmeister"]


class Scanned(NamedTuple):
    """A file of lines, and the folder of their scan by MiniLM."""

    file: Path
    folder: Path

    @property
    def results(self) -> Scan:
        return open_scan(str(self.folder))


def lines_of(seed: int, count: int, longest: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scanned]:
    folder = tmp_path_factory.mktemp("scans")
    source = open_source(str(MINILM))
    corpora = {"one": lines_of(1, 50, 20), "alike": lines_of(2, 24, 20), "longer": lines_of(3, 24, 40)}
    corpora["one"][7] = "a line \x1b[31m with an escape code, told twice, told twice."
    scanned = {}
    for name, lines in corpora.items():
        file = folder / f"{name}.txt"
        file.write_text("\n".join([*lines, "", "\n"]))
        scan(source, str(file), str(folder / name))
        scanned[name] = Scanned(file, folder / name)
    return scanned


Scans = dict[str, Scanned]


def statistics(results: Scan) -> list[dict[str, Any]]:
    names = [head_choice(place) for place in results.places[::12]]
    return [row for name in names for row in results.head(name)["statistics"]]


def test_numbers_equal_those_added_up_by_hand_from_heads_line_by_line(scans: Scans) -> None:
    heads: dict[tuple[int, int], list[dict[str, float]]] = {}
    for line in attn("heads", "--lines", "--file", scans["one"].file, "-m", MINILM, "--json", "-q").lines:
        for row in json.loads(line)["tables"]["heads"]:
            heads.setdefault((row["layer"], row["head"]), []).append(row)
    assert len(heads) == 72
    for row in statistics(scans["one"].results):
        found = (by_line[row["statistic"]] for by_line in heads[row["layer"], row["head"]])
        values = np.array([value for value in found if value is not None])
        assert row["documents"] == len(values)
        assert row["document_mean"] == pytest.approx(values.mean(), abs=2e-5)
        assert row["standard_deviation"] == pytest.approx(values.std(ddof=1), abs=2e-5)
        for name, rank in (("q05", 0.05), ("q25", 0.25), ("q50", 0.5), ("q75", 0.75), ("q95", 0.95)):
            assert row[name] == pytest.approx(np.quantile(values, rank), abs=1e-4)
        width = (row["high"] - row["low"]) / 2
        assert width == pytest.approx(2.0096 * values.std(ddof=1) / np.sqrt(len(values)), rel=0.02, abs=1e-5)


def test_heads_come_in_the_order_asked_for(scans: Scans) -> None:
    rows = list(csv.DictReader(io.StringIO(show(scans, "--sort", "induction", "-k", "9", "-f", "csv"))))
    values = [float(row["document_mean"]) for row in rows]
    every = estimates(scans["one"].results.values(NAMES[5]))["document_mean"].tolist()
    assert values == sorted(every, reverse=True)[:9]
    assert all(float(row["low"]) <= value for row, value in zip(rows, values, strict=True))
    assert f"9 of {len(every)} heads by induction" in show(scans, "--sort", "induction", "-k", "9")
    assert strict_json(show(scans, "--sort", "sink", "--json"))["tables"]["heads"] == []
    assert "sink_weight" not in {row["statistic"] for row in scans["one"].results.head("0.0")["statistics"]}


def show(scans: Scans, *options: str, name: str = "one") -> str:
    run = attn("scan", "show", scans[name].folder, *options)
    assert run.code == 0, run.errors
    return run.text


def test_data_hold_to_their_schemas(scans: Scans, tmp_path: Path) -> None:
    folder = scans["one"].folder
    for options, name in (
        ([], "scan_heads"), (["--kind", "previous"], "scan_heads"), (["--head", "0.2"], "scan_head"),
        (["--sort", "-entropy", "-k", "3"], "scan_heads"),
        (["--head", "5.11"], "scan_head"), (["--against", str(scans["longer"].folder)], "scan_differences"),
        (["--against", str(scans["alike"].folder), "--sort", "distance"], "scan_differences"),
        (["--against", str(scans["alike"].folder), "-k", "3"], "scan_differences"),
    ):  # fmt: skip
        run = attn("scan", "show", folder, *options, "--json")
        hold(run, name)
        assert run.json["tables"]["corpus"][0]["documents"] == 50
        assert run.json["tables"]["rejected"] == [{"reason": "empty", "count": 2}]
        assert attn("scan", "show", folder, *options, "-o", tmp_path / "x.npz", "--force").code == 0
        assert "layer" in np.load(tmp_path / "x.npz")


def test_the_next_line_opens_the_strongest_example(scans: Scans) -> None:
    """Pasted into a shell, it draws the matrix in which the example's cell has the weight that was said."""
    tables = strict_json(show(scans, "--head", "0.2", "--json"))["tables"]
    assert tables["head"][0]["kind"] == "previous"
    strongest = tables["examples"]
    percentiles = [example["percentile"] for example in strongest]
    assert percentiles == sorted(percentiles, reverse=True)
    assert len(strongest) == 14 and strongest[0]["percentile"] == 100
    screen = attn("scan", "show", scans["one"].folder, "--head", "0.2", terminal=True, env={"NO_COLOR": "1"})
    words = shlex.split(screen.text.partition("next: ")[2])
    assert words[:2] == ["attn", "matrix"] and words[2] == strongest[0]["text"]
    matrix = attn(*words[1:], "-f", "json").json["tables"]["matrices"][0]
    cell = np.array(matrix["weights"])[0, strongest[0]["query"], strongest[0]["key"]]
    assert cell == pytest.approx(strongest[0]["weight"], abs=1e-5)


def test_scans_of_documents_alike_do_not_differ(scans: Scans) -> None:
    tables = strict_json(show(scans, "--against", str(scans["alike"].folder), "--json"))["tables"]
    (run,) = tables["run"]
    assert (run["differ"], run["compared"]) == (0, len(tables["differences"]))
    assert {row["statistic"] for row in tables["differences"]} == {*NAMES} - {"sink_weight"}  # there is no learned sink


def test_the_same_documents_are_held_against_themselves(scans: Scans, tmp_path: Path) -> None:
    """Another model over the same lines: the test is the paired t-test of what attn heads says of every line."""
    source = open_source(str(MINILM))
    key = source.loaded.model.encoder.layer[0].attention.self.key  # type: ignore[union-attr]
    with torch.no_grad():
        key.bias += 0.01
        before = key.weight.clone()
        key.weight *= 1.01
        scan(source, str(scans["one"].file), str(tmp_path / "other"))
        key.weight.copy_(before)
        key.bias -= 0.01
    one, other = scans["one"].results, open_scan(str(tmp_path / "other"))
    answer = differences_of(one, other)
    assert answer["run"][0]["test"] == "paired"
    places = [(place["layer"], place["head"]) for place in other.places]
    values = {name: [scanned.values(name) for scanned in (one, other)] for name in NAMES}
    for each in answer["differences"]:
        at = places.index((each["layer"], each["head"]))
        before, after = (found[:, at].astype(float) for found in values[each["statistic"]])
        apart = (after - before)[~np.isnan(before)]
        freedom = len(apart) - 1
        assert each["difference"] == pytest.approx(apart.mean(), abs=1e-9)
        if not apart.any():  # of a key that rules as many rows of every line
            assert each["p_value"] == 1.0
            continue
        error = apart.std(ddof=1) / np.sqrt(freedom + 1)
        assert each["p_value"] == pytest.approx(float(two_sided_p(apart.mean() / error, freedom)), rel=1e-4, abs=1e-12)
        if freedom == 49:
            assert (each["high"] - each["low"]) / 2 == pytest.approx(2.00957 * error, rel=1e-4)
    assert "same documents" in show(scans, "--against", str(tmp_path / "other"))


def test_scans_of_other_documents_differ_as_welch_and_holm_say(scans: Scans) -> None:
    one, longer = scans["one"], scans["longer"]
    answer = differences_of(one.results, longer.results)
    first, second = (
        {
            (place["layer"], place["head"], name): {number: of[at] for number, of in found.items()}
            for name in NAMES
            for found in [estimates(each.results.values(name))]
            for at, place in enumerate(each.results.places)
        }
        for each in (one, longer)
    )
    differ = answer["run"][0]["differ"]
    assert 50 < differ < len(answer["differences"])
    for each in answer["differences"]:
        x, y = (rows[each["layer"], each["head"], each["statistic"]] for rows in (first, second))
        error = np.sqrt(sum(of["standard_deviation"] ** 2 / of["documents"] for of in (x, y)))
        assert each["difference"] == pytest.approx(y["document_mean"] - x["document_mean"])
        # 0.05 over 500 comparisons is beyond 3.8 errors
        assert each["differs"] <= (abs(each["difference"]) > 3.5 * error)
        assert each["differs"] or abs(each["difference"]) < 7 * error or error == 0
        assert each["high"] - each["low"] == pytest.approx(4.1 * error, rel=0.06, abs=1e-12)
        assert each["adjusted_p_value"] >= each["p_value"]
    assert all(each["differs"] for each in answer["differences"][:differ])


def test_what_is_asked_wrongly_is_said_in_a_line(scans: Scans, tmp_path: Path) -> None:
    folder = scans["one"].folder
    refused(attn("scan", "show", tmp_path / "nothing"), 2, "nothing")
    refused(attn("scan", "show", folder, "--head", "9.1"), 2, "9.1")
    refused(attn("scan", "show", folder, "--head", "1"), 2, "1")
    refused(attn("scan", "show", folder, "--kind", "inductive"), 2, "inductive")
    refused(attn("scan", "show", folder, "--sort", "entrpy"), 2, "entropy")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "scan.json").write_text((folder / "scan.json").read_text())
    refused(attn("scan", "show", tmp_path / "begun"), 2, "has no document yet")


_PLAIN = ["he", "sat", "on", "the", "river", "bank", "[bold]", "[/]"]
SHOWN = [*_PLAIN, "\x1b[31m", "\u202ebank", "\u4e2d\u56fd", "loan", "."]
SCREENS = {"overview": ("one",), "head": ("one", "--head", "1.6"), "against": ("one", "--against", "other", "-k", "3")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scans, and one that was interrupted after its first part."""
    folder: Path = tmp_path_factory.mktemp("screens")
    (folder / "minilm").symlink_to(MINILM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(texts, "DOCUMENTS", 20)
        source = open_source("./minilm")
        for seed, name in enumerate(("one", "other", "begun")):
            words = random.Random(seed)
            lines = [" ".join(words.choices(SHOWN, k=words.randint(4, 14 + 6 * seed))) for _ in range(30)]
            (folder / f"{name}.txt").write_text("\n".join([*lines, "", "x" * 4000]) + "\n")
            report = (lambda progress: None) if name != "begun" else lambda progress: 1 / (progress.records == 0)
            try:
                scan(source, f"{name}.txt", name, selection=Selection(layers=(0, 1)), report=report)
            except ZeroDivisionError:
                assert name == "begun"
    return folder


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str, folder: Path, golden_screen: GoldenScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    def draw(width: int) -> str:
        text = on_screen("scan", "show", *SCREENS[name], width=width, depth="none")
        assert "\u202e" not in text
        return text

    golden_screen(f"scan-{name}", draw)


def test_a_scan_that_was_interrupted_shows_what_is_there(folder: Path) -> None:
    assert "over 20 documents" in attn("scan", "show", folder / "begun").text
    assert "tokens so far" in attn("scan", "show", folder / "begun").text
