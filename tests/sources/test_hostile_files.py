"""One law for every reader: whatever bytes come, it reads them or refuses them in one line, and takes little memory."""

import gzip
import io
import json
import os
import random
import re
import tracemalloc
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from pyarrow import parquet

from attn_cli.cli.kit.options.text import _chat_of
from attn_cli.errors import AttnError, InputError, LimitError
from attn_cli.notebook.commands import record
from attn_cli.recording.file import load as load_recording
from attn_cli.scans.folder import LAYOUT, ScanFolder
from attn_cli.sources.corpora import open_corpus
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.huggingface.load.trust import check_configuration
from attn_cli.sources.huggingface.read.input_files import read_inputs
from attn_cli.sources.huggingface.read.media import read_audio, read_image
from attn_cli.sources.sizes import read_sizes
from attn_cli.sources.tables.files import open_table_file, read_learned
from tests.spoiling import spoilt

CASES = int(os.environ.get("HOSTILE_CASES", "100"))  # of every kind of file
MOST_MEMORY = 40_000_000  # the files have some kilobytes; deep JSON and the buffers of decompressors are the most

WORDS = ["river", "bank", "the"]
Q = np.arange(12.0).reshape(3, 4)
CONFIG = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16, "layer_types": ["full_attention"]}


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(method: int, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _npy(array))
    return file.getvalue()


def _wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(2)
        opened.setsampwidth(2)
        opened.setframerate(8000)
        opened.writeframes(bytes(400))
    return file.getvalue()


def _png() -> bytes:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (9, 7), (1, 2, 3)).save(file, "PNG")
    return file.getvalue()


def _table(path: str) -> None:
    table = open_table_file(path)
    table.look_up([*WORDS, "none"])
    rows = [row for row in map(table.index, ("river", "BANK", "none")) if row is not None]
    table.rows(rows)
    assert all(isinstance(table.word(row), str) for row in rows)
    assert sum(len(words) for _, words, _ in table.blocks()) >= len(rows)


def _matrix(path: str) -> None:
    read = read_array(path, name="q")
    assert read.ndim >= 2 and read.size > 0 and read.dtype.kind == "f"
    assert np.isfinite(read).all()


def _piped(path: str) -> None:
    """A matrix whose kind the bytes alone say."""
    assert np.isfinite(read_array("-", name="q", stdin=io.BytesIO(Path(path).read_bytes()))).all()


def _audio(path: str) -> None:
    assert np.isfinite(read_audio(path).samples).all()


def _image(path: str) -> None:
    assert read_image(path).mode == "RGB"


def _vet(path: str) -> None:
    check_configuration(Path(path), "m", trusts_code=False)


def _corpus(path: str) -> str:
    """The records counted and skipped: "read" if none were."""
    reasons = {document.reason for document in open_corpus([path]).documents()} - {""}
    return "; ".join(sorted(reasons)) or "read"


def _gz(data: bytes, level: int = 9) -> bytes:
    """The same bytes at any time: the header would say when, and cases by seed would be others every second."""
    return gzip.compress(data, level, mtime=0)


def _record() -> bytes:
    record("the river bank", "toy").save("good.attn")
    return Path("good.attn").read_bytes()


def _recording(path: str) -> None:
    found = load_recording(path)
    assert found.layers is not None


def _manifest(path: str) -> None:
    ScanFolder(".")


def _parquet() -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"text": WORDS * 3}), file)
    return file.getvalue()


def _arrow(new: Callable[..., Any] = pa.ipc.new_file, packed: str | None = None) -> bytes:
    file, table = io.BytesIO(), pa.table({"text": WORDS * 3})
    with new(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as writer:
        writer.write_table(table)
    return file.getvalue()


def _zst(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True))


GLOVE = "".join(f"{word} 0.5 -1 2e-3\n" for word in WORDS).encode()
NAMED = {"q": Q.tolist(), "k": Q.tolist()}
MESSAGES = [{"role": "user", "content": "hi"}]
IDS = {"input_ids": np.arange(5)[None], "attention_mask": np.ones((1, 5), np.int64)}
MANIFEST = {"layout": LAYOUT, "model": "m", "files": [{"name": "a", "kind": "lines", "hash": "0"}], "fields": []}
PROJECTIONS = {"wq": np.eye(4), "wk": np.eye(4), "table": np.array(["toy:minilm"])}

# the name of the file, what is in it before it is spoilt, and what reads it
FILES: list[tuple[str, Callable[[], bytes], Callable[[str], Any]]] = [
    ("q.npy", lambda: _npy(Q), _matrix),
    ("q.npz", lambda: _npz(zipfile.ZIP_DEFLATED, q=Q, k=Q), _matrix),
    ("q.csv", lambda: b"a,b\n1,2.5\n-3,4\n", _matrix),
    ("q.json", lambda: json.dumps(NAMED).encode(), _matrix),
    ("q.safetensors", lambda: safetensors.numpy.save({"q": Q, "k": Q}), _matrix),
    ("npy", lambda: _npy(Q), _piped),
    ("npz", lambda: _npz(zipfile.ZIP_DEFLATED, q=Q, k=Q), _piped),
    ("csv", lambda: "1;2,5\n-3;4\n".encode("utf-16"), _piped),
    ("json", lambda: json.dumps(NAMED).encode(), _piped),
    ("safetensors", lambda: safetensors.numpy.save({"q": Q, "k": Q}), _piped),
    ("t.txt", lambda: GLOVE, _table),
    ("t.vec", lambda: b"3 3\n" + GLOVE, _table),
    ("t.txt.gz", lambda: _gz(GLOVE), _table),
    ("w.npz", lambda: _npz(zipfile.ZIP_DEFLATED, **PROJECTIONS), read_learned),
    ("i.npz", lambda: _npz(zipfile.ZIP_DEFLATED, **IDS), read_inputs),
    ("i.safetensors", lambda: safetensors.numpy.save(IDS), read_inputs),
    ("s.wav", _wav, _audio),
    ("p.png", _png, _image),
    ("config.json", lambda: json.dumps(CONFIG).encode(), read_sizes),
    ("vetted.json", lambda: json.dumps(CONFIG | {"auto_map": {"a": []}, "text_config": CONFIG}).encode(), _vet),
    ("messages.json", lambda: json.dumps({"messages": MESSAGES}).encode(), _chat_of),
    ("d.jsonl", lambda: b'{"text": "the river"}\n' * 3, _corpus),
    ("d.csv", lambda: b'text,b\n"the river",1\nbank,2\n', _corpus),
    ("d.jsonl.gz", lambda: _gz(b'{"text": "the river"}\n' * 3), _corpus),
    ("d.jsonl.zst", lambda: _zst(b'{"text": "the river"}\n' * 3), _corpus),
    ("d.parquet", _parquet, _corpus),
    ("d.arrow", _arrow, _corpus),
    ("stream.arrow", lambda: _arrow(pa.ipc.new_stream), _corpus),
    ("packed.arrow", lambda: _arrow(packed="zstd"), _corpus),
    ("r.attn", _record, _recording),
    ("scan.json", lambda: json.dumps(MANIFEST).encode(), _manifest),
]


@pytest.mark.parametrize(("name", "content", "read"), FILES, ids=[name for name, _, _ in FILES])
def test_spoilt_files_are_read_or_refused_in_one_line(
    name: str, content: Callable[[], bytes], read, here: Path
) -> None:
    good = content()
    outcomes = set()
    Path(name).write_bytes(good)
    _outcome(read, name, "the good one")  # what is loaded only once is loaded now
    for number in range(CASES):
        chance = random.Random(f"{name}/{number}")
        Path(name).write_bytes(spoilt(good, chance))
        tracemalloc.start()
        outcomes.add(_outcome(read, name, f"case {number}"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_MEMORY, (name, number)
    assert len(outcomes) > 1, "refused one way whatever the fault: is it read at all?"


def _outcome(read: Callable[[str], Any], name: str, case: str) -> str:
    """The outcome for the file; AssertionError for an exception or a message that users must not see."""
    try:
        found = read(name)
    except AttnError as error:
        for text in (error.message, error.hint):
            assert text, case
            assert "\n" not in text, case
            assert len(text) < 600, case
            assert not re.search(r"allow_pickle|weights_only|set_int_max_str_digits|Traceback", text), (case, text)
        assert not isinstance(error, LimitError), (case, "a size in the file was believed", error.message)
        return error.message
    except Exception as error:
        raise AssertionError(f"{name}, {case}: {type(error).__name__}: {error}") from error
    return found if isinstance(found, str) else "read"


@pytest.mark.parametrize(("name", "content", "read"), FILES, ids=[name for name, _, _ in FILES])
def test_one_kind_of_file_under_the_name_of_another(name: str, content, read, here: Path) -> None:
    for other, others_content, _ in FILES:
        Path(name).write_bytes(others_content())
        _outcome(read, name, other)


def test_a_word2vec_header_that_lies_is_refused(here: Path) -> None:
    for counts in ("3 999999999999", "999999999999 4", "9" * 150 + " 3", f"3 {10**40}"):
        for name, pack in (("t.vec", bytes), ("t.vec.gz", _gz)):
            Path(name).write_bytes(pack(counts.encode() + b"\nriver 1 2 3 4\n"))
            with pytest.raises(InputError, match=r"promises|has 4 numbers|is not a number"):
                _table(name)


def test_a_member_takes_no_more_memory_than_its_header_promises(here: Path) -> None:
    with zipfile.ZipFile("q.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", _npy(Q) + bytes(20_000_000))
    tracemalloc.start()
    np.testing.assert_array_equal(read_array("q.npz", name="q"), Q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    Path("q.npz").write_bytes(_npz(zipfile.ZIP_LZMA, q=Q))  # which may ask for any memory
    with pytest.raises(InputError, match="NumPy doesn't write"):
        read_array("q.npz", name="q")
