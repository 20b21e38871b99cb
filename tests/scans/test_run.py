"""A scan's tables are the same to the byte, whoever computes its shards, in whatever order, however often killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("datasketches")
pytest.importorskip("pyarrow")
from pyarrow import parquet

from attn_cli.errors import InputError, LimitError
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.kept.manifest import LAYOUT
from attn_cli.scans.kept.results import open_scan
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.run.memory import within
from attn_cli.scans.run.run import ScanProgress
from attn_cli.scans.run.scan import scan
from attn_cli.scans.sums.shard_sums import scan_shard
from attn_cli.scans.sums.sum_arrays import SumArrays, arrays_of
from attn_cli.selection import Selection
from attn_cli.sources.corpora import open_corpus
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from tests.program import environment
from tests.scans.corpora import files_of, sentences, small_shards, table_scan, written
from tests.scans.word_texts import open_words

__all__ = ["small_shards"]
# Ends itself by SIGKILL in the N-th of all moments at which a file is written, half of it done, or a shard begins.
_KILLED = """
import os, random, signal, sys
from pathlib import Path
from attn_cli.scans.run import run
from attn_cli.scans.read import shards
from attn_cli.views.sink import Sink
from tests.scans.corpora import table_scan
shards.DOCUMENTS = 3
left, write, scan_shard = int(sys.argv[3]), Sink.write, run.scan_shard

def moment():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def half_written(self, data, at=None):
    write(self, bytes(data)[: len(data) // 2])
    moment()
    write(self, bytes(data)[len(data) // 2 :])
    self.file.flush()
    moment()

Sink.write = half_written
run.scan_shard = lambda *arguments, **more: (moment(), scan_shard(*arguments, **more))[1]
table_scan(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.usefixtures("small_shards")
def test_a_killed_scan_goes_on_and_gives_what_an_undisturbed_one_gives(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(25))
    expected = table_scan(file, tmp_path / "undisturbed")
    killed = 0
    for moments in (2, 7, 11, 12, 16):  # of 9 shards, their files, the sums and 9 tables
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(file), str(tmp_path / "killed"), str(moments)],
            env=environment(), capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        killed += done.returncode == -signal.SIGKILL
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    assert killed >= 4
    assert table_scan(file, tmp_path / "killed") == expected
    assert not [path for path in (tmp_path / "killed").rglob("*") if path.suffix in (".part", ".npz")]


@pytest.mark.usefixtures("small_shards")
def test_the_order_in_which_shards_are_done_changes_no_byte(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(20))
    source = open_words()

    def backwards(shards: Iterator[Shard]) -> Iterator[tuple[Shard, SumArrays]]:
        return ((shard, arrays_of(scan_shard(source, shard, ScanOptions()))) for shard in reversed(list(shards)))

    assert table_scan(file, tmp_path / "backwards", backwards) == table_scan(file, tmp_path / "forwards")


@pytest.mark.usefixtures("small_shards")
def test_what_is_finished_is_not_computed_again(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(10))
    before = table_scan(file, tmp_path / "scan")

    def nothing(shards: Iterator[Shard]) -> Iterator[tuple[Shard, SumArrays]]:
        raise AssertionError("nothing is missing")

    assert table_scan(file, tmp_path / "scan", nothing) == before == files_of(tmp_path / "scan")


@pytest.mark.usefixtures("small_shards")
def test_progress_moves_with_every_shard_and_begins_with_what_is_kept(tmp_path: Path) -> None:
    file, said = written(tmp_path, sentences(10)), list[ScanProgress]()

    def interrupted(progress: ScanProgress) -> None:
        said.append(progress)
        if progress.records == 6:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scan(open_words(), str(file), str(tmp_path / "scan"), report=interrupted)
    assert [progress.records for progress in said] == [0, 3, 6]
    again = list[ScanProgress]()
    counts = scan(open_words(), str(file), str(tmp_path / "scan"), report=again.append)
    fresh = [progress for progress in again if progress.fresh_records]
    assert again[-len(fresh) - 1].records == 6 and [progress.records for progress in fresh] == [9, 10]
    assert (again[-1].tokens, again[-1].fresh_records) == (counts["tokens"], 4)


@pytest.mark.usefixtures("small_shards")
def test_progress_of_a_sample_counts_the_documents_that_are_read(tmp_path: Path) -> None:
    corpus, said = open_corpus([str(written(tmp_path, sentences(40)))], sample="25%"), list[ScanProgress]()
    counts = scan(open_words(), corpus, str(tmp_path / "scan"), report=said.append)
    assert 0 < counts["documents"] < 20
    assert said[-1].records == counts["documents"] == corpus.count_below(40) == len(list(corpus.documents()))


def test_less_memory_makes_smaller_batches_and_may_change_in_the_middle(tmp_path: Path, minilm: object) -> None:
    file, source = written(tmp_path, sentences(40, 1, 60)), ModelSource(minilm)  # type: ignore[arg-type]
    layers, (least, much) = Selection(layers=(0,)), (65_000_000, 10**9)
    tokens = [within(memory, source, ScanOptions(layers)).batch_tokens for memory in (least, much)]
    assert tokens[0] < 700 < tokens[1]
    ended = partial(scan, source, str(file), str(tmp_path / "little"), selection=layers)
    with pytest.raises(ZeroDivisionError):
        ended(memory=much, report=lambda progress: 1 / (progress.records == 0))
    ended(memory=least)
    scan(source, str(file), str(tmp_path / "much"), selection=layers, memory=much)
    one, other = (parquet.read_table(tmp_path / name / "statistics.parquet").to_pandas() for name in ("little", "much"))
    assert (one["documents"] == other["documents"]).all()
    assert (one["mean"] - other["mean"]).abs().max() < 1e-6
    with pytest.raises(LimitError, match="a scan of 12 heads takes more than the 20 MB"):
        ended(memory=20_000_000)


@pytest.mark.parametrize("walk", ["compiled", "bands"])
def test_passes_end_with_the_last_attention_and_no_byte_changes(
    walk: str, tmp_path: Path, minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass of a model is a whole one."""
    if walk == "bands":
        monkeypatch.setattr(cpu, "suits", lambda *_: False)
    file, source, ran = written(tmp_path, sentences(3, 4, 9)), ModelSource(minilm), []
    block = minilm.model.get_submodule("encoder.layer.1.intermediate")
    hook = block.register_forward_hook(lambda *_: ran.append(len(found)))
    found: list[dict[str, bytes]] = []
    for number in range(3):
        scan(source, str(file), str(tmp_path / f"scan{number}"), selection=Selection(layers=(0, 1)))
        found.append(files_of(tmp_path / f"scan{number}"))
    hook.remove()
    assert set(ran) == {0}
    assert found[0] == found[1] == found[2]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(10))
    table_scan(file, tmp_path / "scan")
    written(tmp_path, sentences(10, seed=1))
    with pytest.raises(InputError, match=r"documents: .* has changed"):
        table_scan(file, tmp_path / "scan")


def test_a_folder_of_another_version_is_neither_gone_on_with_nor_shown(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(3))
    table_scan(file, tmp_path / "scan")
    about = tmp_path / "scan" / "scan.json"
    about.write_text(about.read_text().replace(f'"layout": {LAYOUT}', '"layout": 1'))
    with pytest.raises(InputError, match="another version of attn"):
        table_scan(file, tmp_path / "scan")
    with pytest.raises(InputError, match="another version of attn"):
        open_scan(str(tmp_path / "scan"))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not empty"):
        table_scan(written(tmp_path, sentences(3)), tmp_path)
