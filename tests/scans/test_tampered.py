"""A scan that goes on in a folder whose sums no scan has written: a line, and nothing of it is overwritten."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("datasketches")
pytest.importorskip("pyarrow")

from attn_cli.errors import InputError
from attn_cli.scans.read import shards
from attn_cli.scans.run import run
from attn_cli.scans.run.scan import scan
from tests.program import attn, refused
from tests.scans.corpora import sentences, small_shards, written
from tests.scans.word_texts import open_words

__all__ = ["small_shards"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a scan of it that ended in the middle, `stopped`."""
    place = tmp_path_factory.mktemp("corpus")
    file = written(place, sentences(15))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "DOCUMENTS", 3)
        patch.setattr(run, "_SHARDS_APART", 2)
        with pytest.raises(ZeroDivisionError):
            scan(open_words(), str(file), str(place / "scan"), report=lambda progress: 1 // (12 - progress.records))
    (place / "scan").rename(place / "stopped")
    return place


@pytest.fixture
def half(stopped: Path, monkeypatch: pytest.MonkeyPatch, small_shards: None) -> Path:
    """The folder of a scan that ended in the middle: sums of some shards together, and one of its own."""
    monkeypatch.setattr(run, "_SHARDS_APART", 2)
    shutil.rmtree(stopped / "scan", ignore_errors=True)
    return Path(shutil.copytree(stopped / "stopped", stopped / "scan"))


def _edit(file: Path, name: str, array: np.ndarray) -> None:
    with np.load(file) as read:
        arrays = dict(read)
    np.savez(file, **arrays | {name: array})


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _is_refused(folder: Path) -> None:
    before = files_of(folder)
    with pytest.raises(InputError, match=r"--force scans anew"):
        scan(open_words(), str(folder.parent / "lines.txt"), str(folder))
    after = files_of(folder)
    assert {name: after.get(name) for name in before} == before


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "work" / "state.npz") as read:
        return dict(read)


def test_arrays_of_other_sizes_shapes_and_types(half: Path) -> None:
    state = half / "work" / "state.npz"
    good = state.read_bytes()
    of_module = {name: array for name, array in _arrays(half).items() if name.startswith("0.")}
    assert len(of_module) == 28
    for name, array in of_module.items():
        for each in (array[None], array.astype("U4"), np.concatenate([array, np.zeros((1, *array.shape[1:]), "u1")])):
            _edit(state, name, each)
            _is_refused(half)
            state.write_bytes(good)
    assert scan(open_words(), str(half.parent / "lines.txt"), str(half))["finished"]


@pytest.mark.parametrize("number", [10**30, 2**63, -1, 1.5, None, "x", True], ids=str)
@pytest.mark.parametrize(
    "place", ["documents", "tokens", "records", "modules.0.documents", "modules.0.step", "modules.0.place.layer",
              "modules.0.place.heads.0"],
)  # fmt: skip
def test_numbers_that_are_no_counts(half: Path, place: str, number: object) -> None:
    state = half / "work" / "state.npz"
    about = inner = json.loads(_arrays(half)["about"].tobytes())
    *way, last = (int(key) if key.isdecimal() else key for key in place.split("."))
    for key in way:
        inner = inner[key]
    inner[last] = number
    _edit(state, "about", np.frombuffer(json.dumps(about).encode(), np.uint8))
    _is_refused(half)


def test_sums_of_other_heads_than_the_models(half: Path) -> None:
    state = half / "work" / "state.npz"
    about = json.loads(_arrays(half)["about"].tobytes())
    about["modules"][0]["place"]["heads"][0] = 7
    _edit(state, "about", np.frombuffer(json.dumps(about).encode(), np.uint8))
    _is_refused(half)


def test_a_finished_scan_without_reasons_is_no_bug(half: Path) -> None:
    scan(open_words(), str(half.parent / "lines.txt"), str(half))
    manifest = json.loads((half / "scan.json").read_text())
    del manifest["progress"]["reasons"]
    (half / "scan.json").write_text(json.dumps(manifest))
    _is_refused(half)


def test_rows_beyond_what_a_table_holds(half: Path) -> None:
    _edit(half / "work" / "state.npz", "0.baselines.mean", np.full_like(_arrays(half)["0.baselines.mean"], 1e308))
    _is_refused(half)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_table_with_a_number_that_is_not_finite(half: Path, number: float) -> None:
    """In a table of Parquet, where a scan writes null for NaN and has no infinity."""
    import pyarrow as arrow
    from pyarrow import parquet

    scan(open_words(), str(half.parent / "lines.txt"), str(half))
    file = half / "statistics.parquet"
    table = parquet.read_table(file)
    place = table.column_names.index("mean")
    means = table["mean"].to_numpy().copy()
    means[0] = number
    table = table.set_column(place, table.schema.field(place), arrow.array(means, from_pandas=False))
    parquet.write_table(table, file)
    refused(attn("scan", "show", half), 2, "mean holds what is no finite number")
