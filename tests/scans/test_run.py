"""A scan is the same numbers whoever makes its parts, in whatever order, however often killed."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from attn_cli.errors import InputError
from attn_cli.scans.folder import ScanFolder
from attn_cli.scans.scan import scan
from attn_cli.scans.show import open_scan
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from tests.program import environment
from tests.scans.corpora import files_of, sentences, written
from tests.scans.word_texts import open_words

# Ends itself by SIGKILL in the N-th of all moments at which a file is written, half of it done, or a part begins.
_KILLED = """
import os, signal, sys
from attn_cli.scans import folder, ray_workers, scan, texts
from tests.scans.word_texts import open_words
texts.DOCUMENTS = 3
left, scan_shard, write = int(sys.argv[3]), ray_workers.scan_shard, folder.Sink.write

def moment():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def half_written(self, data, at=None):
    write(self, bytes(data)[: len(data) // 2])
    self.file.flush()
    moment()
    write(self, bytes(data)[len(data) // 2 :])

folder.Sink.write = half_written
ray_workers.scan_shard = lambda *arguments: (moment(), scan_shard(*arguments))[1]
scan.scan(open_words(), sys.argv[1], sys.argv[2])
"""


def words_scan(file: Path, folder: Path, **how: Any) -> dict[str, Any]:
    return scan(open_words(), str(file), str(folder), **how)


@pytest.mark.usefixtures("small_parts")
def test_a_killed_scan_goes_on_and_gives_what_an_undisturbed_one_gives(tmp_path: Path) -> None:
    file = written(tmp_path, [*sentences(22), "", "xyzzy", "river"])
    words_scan(file, tmp_path / "undisturbed")
    killed = 0
    for moments in (1, 3, 4, 8):  # of 9 parts, their files and those of rejects, and scan.json
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(file), str(tmp_path / "killed"), str(moments)],
            env=environment(), capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        killed += done.returncode == -signal.SIGKILL
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    assert killed >= 3
    words_scan(file, tmp_path / "killed")
    killed_files = {name: x for name, x in files_of(tmp_path / "killed").items() if not name.startswith(".")}
    assert killed_files == files_of(tmp_path / "undisturbed")


@pytest.mark.usefixtures("small_parts")
def test_what_is_finished_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = written(tmp_path, sentences(10)), tmp_path / "scan"
    done, before = words_scan(file, folder), files_of(folder)
    monkeypatch.setattr("attn_cli.scans.ray_workers.scan_shard", lambda *_: pytest.fail("nothing is missing"))
    assert words_scan(file, folder) == done and files_of(folder) == before


@pytest.mark.usefixtures("small_parts")
def test_shares_of_a_corpus_are_copied_together(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(20))
    whole = words_scan(file, tmp_path / "whole")
    for which in (1, 2, 3):
        done = words_scan(file, tmp_path / str(which), part=(which, 3))
        assert (done["parts"], done["missing"]) == ((3, 4), (2, 5), (2, 5))[which - 1]
    for which in "23":
        for part in (tmp_path / which).glob("part-*"):
            part.rename(tmp_path / "1" / part.name)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "whole")
    assert open_scan(str(tmp_path / "1")).progress == whole


@pytest.mark.usefixtures("small_parts")
def test_two_processes_share_the_parts_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attn_cli.scans import ray_workers as module

    file, made, both = written(tmp_path, sentences(30)), list[int](), threading.Barrier(2)
    scan_shard = module.scan_shard

    def noted(source: Any, shard: Any, *more: Any) -> Any:
        made.append(shard.number)
        if len(made) <= 2:  # both hold one before either goes on
            both.wait(120)
        return scan_shard(source, shard, *more)

    monkeypatch.setattr(module, "scan_shard", noted)
    threads = [threading.Thread(target=words_scan, args=(file, tmp_path / "scan")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(10))
    monkeypatch.undo()
    assert open_scan(str(tmp_path / "scan")).progress["documents"] == 30


def test_a_folder_that_another_process_began_meanwhile_is_its_scan(tmp_path: Path) -> None:
    one, two, three = (ScanFolder(str(tmp_path / "scan")) for _ in range(3))
    for folder in (one, two):
        folder.begin({"model": "m", "files": [], "seed": 0})
    with pytest.raises(InputError, match="other seed"):
        three.begin({"model": "m", "files": [], "seed": 1})


def test_passes_end_with_the_last_attention_and_no_byte_changes(tmp_path: Path, minilm: LoadedModel) -> None:
    """The first pass of a model is a whole one."""
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


def test_other_documents_options_and_models_are_refused(tmp_path: Path) -> None:
    file, folder = written(tmp_path, sentences(10)), tmp_path / "scan"
    words_scan(file, folder)
    before = files_of(folder)
    with pytest.raises(InputError, match="other seed: 0 there, 1 now"):
        words_scan(file, folder, seed=1)
    source = open_words()
    source.fingerprint = lambda: "other"
    with pytest.raises(InputError, match="other weights"):
        scan(source, str(file), str(folder))
    written(tmp_path, sentences(10, seed=1))
    with pytest.raises(InputError, match="other files"):
        words_scan(file, folder)
    assert files_of(folder) == before


def test_a_folder_of_another_version_is_neither_gone_on_with_nor_shown(tmp_path: Path) -> None:
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "scan.json").write_text('{"scan": {"layout": 5}, "progress": {"finished": true}}')
    for use in (lambda: words_scan(written(tmp_path, sentences(3)), tmp_path / "scan"),
                lambda: open_scan(str(tmp_path / "scan"))):  # fmt: skip
        with pytest.raises(InputError, match="another version of attn"):
            use()


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not empty"):
        words_scan(written(tmp_path, sentences(3)), tmp_path)


def test_pieces_of_a_document_are_rows_of_their_own(tmp_path: Path) -> None:
    file = written(tmp_path, [" ".join(sentences(1, 40, 40))])
    done = words_scan(file, tmp_path / "scan", chunk=12)
    table = parquet.read_table(tmp_path / "scan" / "part-00000.parquet").to_pylist()
    pieces = {row["piece"]: row["text"] for row in table if row["text"] is not None}
    assert done["records"] == 1 and done["documents"] == len(pieces) > 3
    assert "".join(pieces.values()) == file.read_text().strip()
