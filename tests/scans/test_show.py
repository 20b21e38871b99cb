"""attn scan show: the tables' numbers as screens and data, examples that open, and what differs between two scans."""

import csv
import io
import json
import os
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from attn_cli.errors import InputError, OutputError
from attn_cli.scans.kept.folder import ScanFolder
from attn_cli.scans.kept.results import ScanResults, differences_of, open_scan
from attn_cli.scans.kept.tables import TABLES
from attn_cli.scans.run.scan import scan
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.scanned.differences import differences
from attn_cli.summaries.scanned.student import two_sided_p
from tests.program import attn, refused, strict_json
from tests.real_models import MINILM
from tests.views.test_schemas import hold

NAMES = [statistic.name for statistic in STATISTICS]
WORDS = ["he", "sat", "on", "the", "river", "bank", "loan", "from", "[bold]", "cat", ".", "ninety-nine", "Weltmeister"]


class Scanned(NamedTuple):
    """A scan, and the lines that were scanned."""

    file: Path
    lines: list[str]
    folder: Path
    model: Path

    @property
    def results(self) -> ScanResults:
        return open_scan(str(self.folder))


def lines_of(seed: int, count: int, longest: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scanned]:
    folder = tmp_path_factory.mktemp("scans")
    model = MINILM
    source = open_source(str(model))
    corpora = {"one": lines_of(1, 50, 20), "alike": lines_of(2, 24, 20), "longer": lines_of(3, 24, 40)}
    corpora["one"][7] = "a line \x1b[31m with an escape code, told twice, told twice."
    scanned = {}
    for name, lines in corpora.items():
        file = folder / f"{name}.txt"
        file.write_text("\n".join([*lines, "", "\n"]))
        scan(source, str(file), str(folder / name))
        scanned[name] = Scanned(file, lines, folder / name, model)
    return scanned


Scans = dict[str, Scanned]


@cache
def by_hand(file: Path, model: Path, *options: str) -> dict[tuple[int, int], list[dict[str, float]]]:
    """The numbers of attn heads --lines for every head and document."""
    run = attn("heads", "--lines", "--file", file, "-m", model, "--json", "-q", *options)
    heads: dict[tuple[int, int], list[dict[str, float]]] = {}
    for line in run.lines:
        for row in json.loads(line)["tables"]["kinds" if options else "heads"]:
            heads.setdefault((row["layer"], row["head"]), []).append(row)
    return heads


def column(rows: list[dict[str, float]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows if row[name] is not None])


def test_numbers_equal_those_added_up_by_hand_from_heads_line_by_line(scans: Scans) -> None:
    scanned = scans["one"]
    heads = by_hand(scanned.file, scanned.model)
    assert len(heads) == 72
    for row in scanned.results.table("statistics").to_pylist():
        values = column(heads[row["layer"], row["head"]], row["statistic"])
        assert row["documents"] == len(values)
        if len(values):
            assert row["mean"] == pytest.approx(values.mean(), abs=2e-5)
            assert row["variance"] == pytest.approx(values.var(ddof=1), abs=2e-5, rel=1e-4)
            assert row["minimum"] == pytest.approx(values.min(), abs=1e-4)
            assert row["maximum"] == pytest.approx(values.max(), abs=1e-4)
            assert row["q50"] == pytest.approx(np.median(values), abs=values.std() / 3 + 1e-4)
            width = (row["high"] - row["low"]) / 2
            assert width == pytest.approx(2.0096 * values.std(ddof=1) / np.sqrt(len(values)), rel=0.02, abs=1e-5)


def test_kinds_equal_those_added_up_by_hand(scans: Scans) -> None:
    scanned = scans["one"]
    heads = by_hand(scanned.file, scanned.model, "--kinds")
    compared = 0
    for row in scanned.results.table("kinds").to_pylist():
        rows = heads[row["layer"], row["head"]]
        weights, shares = (column(rows, f"{row['kind']}_{name}") for name in ("weight", "share"))
        if len(weights):
            compared += 1
            assert row["weight"] == pytest.approx(weights.mean(), abs=1e-4), row
        if len(shares):
            assert row["share"] == pytest.approx(shares.mean(), abs=1e-3), row
    assert compared > 72 * 10


def test_heads_come_in_the_order_asked_for(scans: Scans) -> None:
    rows = list(csv.DictReader(io.StringIO(show(scans, "--sort", "induction", "-k", "9", "-f", "csv"))))
    values = [float(row["document_mean"]) for row in rows]
    every = [row["document_mean"] for (_, name), row in scans["one"].results.statistics.items() if name == NAMES[5]]
    assert values == sorted(every, reverse=True)[:9]
    assert all(float(row["low"]) <= value for row, value in zip(rows, values, strict=True))


def show(scans: Scans, *options: str, name: str = "one") -> str:
    run = attn("scan", "show", scans[name].folder, *options)
    assert run.code == 0, run.errors
    return run.text


def test_data_hold_to_their_schemas(scans: Scans, tmp_path: Path) -> None:
    folder = scans["one"].folder
    for options, name in (
        ([], "scan_heads"), (["--kind", "previous"], "scan_heads"), (["--head", "0.2"], "scan_head"),
        (["--sort", "-entropy", "-k", "3"], "scan_heads"),
        (["--head", "-1.-1"], "scan_head"), (["--against", str(scans["longer"].folder)], "scan_differences"),
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
    strongest = [example for example in tables["examples"] if example["kind"] == "previous"]
    assert len(strongest) == 5 and tables["examples"][:5] == strongest
    screen = attn("scan", "show", scans["one"].folder, "--head", "0.2", terminal=True, env={"NO_COLOR": "1"})
    words = shlex.split(screen.text.partition("next: ")[2])
    assert words[:2] == ["attn", "matrix"] and words[2] == strongest[0]["text"]
    matrix = attn(*words[1:], "-f", "json").json["tables"]["matrices"][0]
    cell = np.array(matrix["weights"])[0, strongest[0]["query"], strongest[0]["key"]]
    assert cell == pytest.approx(strongest[0]["weight"], abs=1e-5)
    assert [example["weight"] for example in strongest] == sorted((x["weight"] for x in strongest), reverse=True)


def test_pieces_of_long_documents_have_the_text_that_the_model_read(tmp_path: Path, scans: Scans) -> None:
    file, folder = tmp_path / "long.txt", tmp_path / "long"
    file.write_text("first\n" + " ".join(scans["longer"].lines))
    made = attn("scan", file, "-m", scans["one"].model, "-o", folder, "--chunk", "64", "-q")
    assert made.code == 0, made.errors
    results = attn("scan", "show", folder, "--head", "0.2", "--json").json["tables"]
    example = next(each for each in results["examples"] if each["piece"] and each["whole"])
    assert example["text"] in file.read_text()
    assert not [each for each in results["examples"] if not each["whole"] and each["text"] not in file.read_text()]


def test_scans_of_documents_alike_do_not_differ(scans: Scans) -> None:
    tables = strict_json(show(scans, "--against", str(scans["alike"].folder), "--json"))["tables"]
    (run,) = tables["run"]
    assert (run["differ"], run["compared"]) == (0, len(tables["differences"]))
    rows = [row for name in ("one", "alike") for row in scans[name].results.table("statistics").to_pylist()]
    varies = {(row["layer"], row["head"], row["statistic"]) for row in rows if row["variance"]}
    assert run["compared"] == len(varies)
    assert {name for _, _, name in varies} == {*NAMES} - {"sink_weight"}  # no head has weight on a learned sink


def test_the_same_documents_are_held_against_themselves(scans: Scans, tmp_path: Path) -> None:
    """Another model over the same lines: the test is the paired t-test of what attn heads says of every line."""
    source = open_source(str(scans["one"].model))
    key = source.loaded.model.encoder.layer[0].attention.self.key  # type: ignore[union-attr]
    with torch.no_grad():
        key.bias += 0.01
        before = key.weight.clone()
        key.weight *= 1.01
        scan(source, str(scans["one"].file), str(tmp_path / "other"))
        key.weight.copy_(before)
        key.bias -= 0.01
    other = Scanned(scans["one"].file, scans["one"].lines, tmp_path / "other", scans["one"].model)
    answer = differences_of(scans["one"].results, other.results)
    assert answer["run"][0]["test"] == "paired"
    first, second = (each.results.blocks for each in (scans["one"], other))
    for each in answer["differences"]:
        place = ("self", each["layer"], each["head"], "", 0)
        one, two = (sums[place, each["statistic"]] for sums in (first, second))
        known = one.count > 0
        apart, freedom = (two.total - one.total)[known], known.sum() - 1
        error = apart.std(ddof=1) / np.sqrt(freedom + 1)
        if not apart.any():  # of a key that rules as many rows of every line
            assert (each["difference"], each["p_value"]) == (0.0, 1.0)
            continue
        assert each["difference"] == pytest.approx(apart.mean(), abs=1e-9)
        assert each["p_value"] == pytest.approx(float(two_sided_p(apart.mean() / error, freedom)), rel=1e-4, abs=1e-12)
        if freedom == 49:
            assert (each["high"] - each["low"]) / 2 == pytest.approx(2.00957 * error, rel=1e-4)
    welch = differences(scans["one"].results.statistics, other.results.statistics)
    assert answer["run"][0]["differ"] > 2 * sum(each["differs"] for each in welch)
    assert "same documents" in show(scans, "--against", str(tmp_path / "other"))


def test_scans_of_other_documents_differ_as_welch_and_holm_say(scans: Scans) -> None:
    one, longer = scans["one"], scans["longer"]
    answer = differences_of(one.results, longer.results)
    first, second = (
        {(row["layer"], row["head"], row["statistic"]): row for row in each.results.table("statistics").to_pylist()}
        for each in (one, longer)
    )
    differ = answer["run"][0]["differ"]
    assert 50 < differ < len(answer["differences"])
    for each in answer["differences"]:
        x, y = (rows[each["layer"], each["head"], each["statistic"]] for rows in (first, second))
        error = np.sqrt(x["variance"] / x["documents"] + y["variance"] / y["documents"])
        assert each["difference"] == pytest.approx(y["mean"] - x["mean"])
        assert each["differs"] <= (
            abs(each["difference"]) > 3.5 * error
        )  # 0.05 over 500 comparisons is beyond 3.8 errors
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
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "scan.json").write_text(json.dumps({"scan": {}, "progress": {"finished": False}}))
    refused(attn("scan", "show", tmp_path / "half"), 2, "is not finished: 0 documents", "goes on")
    (tmp_path / "half" / "work").mkdir()
    lines = [{"shard": 0, "documents": 512, "tokens": 9000}, {"shard": 1, "documents": 500, "tokens": 1000}]
    journal = "".join(json.dumps(line) + "\n" for line in [*lines, lines[1]]) + '{"shard": 2, "docu'
    (tmp_path / "half" / "work" / "journal.jsonl").write_text(journal)
    with ScanFolder(str(tmp_path / "half")).claimed():
        refused(attn("scan", "show", tmp_path / "half"), 2, "1,012 documents, 10,000 tokens so far", "it is running")


# Folders that are damaged, or that lie


def _copy(scanned: Scanned, folder: Path) -> Path:
    return Path(shutil.copytree(scanned.folder, folder))


@pytest.mark.parametrize(
    ("place", "value"),
    [(("scan",), [7]), (("scan", "dtype"), "\x1b[31mX"), (("scan", "files"), "x"), (("scan", "files", 0), None),
     (("scan", "fields"), 7), (("scan", "sample"), "x"), (("progress",), 1e308), (("progress", "documents"), None),
     (("progress", "tokens"), [7]), (("progress", "reasons"), 7), (("progress", "finished"), "x")],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_no_scan_has_written(scans: dict[str, Scanned], tmp_path: Path, place, value) -> None:
    folder = _copy(scans["one"], tmp_path / "s")
    manifest = inner = json.loads((folder / "scan.json").read_text())
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (folder / "scan.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"scan\.json can't be read"):
        open_scan(str(folder))


def test_tables_of_other_columns_gaps_and_escape_codes_are_refused(scans: dict[str, Scanned], tmp_path: Path) -> None:
    folder = _copy(scans["one"], tmp_path / "s")
    for name in TABLES:
        file = folder / f"{name}.parquet"
        content, table = file.read_bytes(), parquet.read_table(file)
        spoilt = [table.drop_columns(table.column_names[0]), pa.table({column: ["x"] for column in table.column_names})]
        if table.column_names[0] == "stream" and len(table):
            gaps = pa.nulls(len(table), pa.string())
            odd = pa.array(["\x1b[31mself"] * len(table))
            spoilt += [table.set_column(0, table.schema.field(0), column) for column in (gaps, odd)]
        for each in spoilt:
            parquet.write_table(each, file)
            with pytest.raises(
                InputError, match=rf"{name}\.parquet can't be read: it has no column|gaps|invalid names"
            ):
                open_scan(str(folder)).table(name)
        file.write_bytes(content)
    assert open_scan(str(folder)).show()["heads"]


def test_a_folder_whose_lock_or_work_is_a_link_is_left_alone(scans: dict[str, Scanned], tmp_path: Path) -> None:
    folder = _copy(scans["one"], tmp_path / "s")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    (folder / "work").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="is a link"):
        ScanFolder(str(folder)).begin({}, force=True)
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(tmp_path / "mine" / "letter")
    with pytest.raises(OutputError), ScanFolder(str(folder)).claimed():
        pass
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


def test_a_pipe_in_place_of_a_scans_file_is_no_wait(scans: dict[str, Scanned], tmp_path: Path) -> None:
    for number, name in enumerate(("scan.json", "heads.parquet", ".lock")):
        folder = _copy(scans["one"], tmp_path / str(number))
        (folder / name).unlink()
        os.mkfifo(folder / name)
        if name != ".lock":
            with pytest.raises(InputError, match="it is a pipe"):
                open_scan(str(folder)).table("heads")
        else:
            with ScanFolder(str(folder)).claimed():
                pass


def test_sums_that_are_damaged_are_refused(scans: dict[str, Scanned], tmp_path: Path) -> None:
    folder = _copy(scans["one"], tmp_path / "s")
    (folder / "work").mkdir(exist_ok=True)
    for content in (b"", b"rubbish", b"PK\x03\x04"):
        (folder / "work" / "state.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"damaged|is empty|can't be read"):
            ScanFolder(str(folder)).folded()
    (folder / "work" / "journal.jsonl").write_bytes(b'7\n[]\n{}\n{"shard":[],"documents":1,"tokens":2}\n\xff\n')
    assert ScanFolder(str(folder)).so_far() == (0, 0)
