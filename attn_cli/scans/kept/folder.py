"""The folder of a scan: its manifest, the sums of finished shards, and what is known of all shards before them."""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from attn_cli.errors import InputError, LoadError, OutputError, reason
from attn_cli.scans.kept.manifest import check_manifest, check_same
from attn_cli.scans.kept.tables import TABLES, check_table
from attn_cli.scans.read.poison import PoisonRecord
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.sums.sum_arrays import SumArrays, arrays_of, count_of, sums_of
from attn_cli.scans.sums.sums import ScanSums
from attn_cli.sources.corpora import Document
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, kind_of_path, nonempty_file
from attn_cli.text import excerpt
from attn_cli.views.sink import Sink

_MANIFEST = "scan.json"
_WORK = "work"
_STATE = "state.npz"
_JOURNAL = "journal.jsonl"


class Folded(NamedTuple):
    """The sums over a scan's first `shards`; `document` is the first one after them, `content` a hash of all."""

    shards: int
    document: int
    content: str
    sums: ScanSums


class ScanFolder:
    """The folder `path` that holds a scan; files in it appear whole or not at all."""

    def __init__(self, path: str) -> None:
        self.name, self.path = path, Path(path).expanduser()
        self.work = self.path / _WORK

    def read_manifest(self) -> dict[str, Any] | None:
        """The JSON in scan.json; None without that file, InputError for one that is no scan's."""
        path = self.path / _MANIFEST
        if kind_of_path(path, InputError) is PathKind.NOTHING:
            return None
        nonempty_file(str(path))
        try:
            content = orjson.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(
                f"can't read {excerpt(self.name)}/{_MANIFEST}: {excerpt(reason(error))}", "is it the folder of a scan?"
            ) from None
        if not isinstance(content, dict) or "scan" not in content:
            raise InputError(f"{excerpt(self.name)}/{_MANIFEST} is not a scan's manifest", "give another folder")
        with parse_errors(f"{excerpt(self.name)}/{_MANIFEST}", "was the folder copied whole? --force scans anew"):
            check_manifest(content)
        return content

    def begin(self, manifest: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
        """Prepare the folder for this scan; returns how far an earlier run of it has come, as scan.json says."""
        before = None
        if self.work.is_symlink():
            raise InputError(
                f"{excerpt(self.name)}/{_WORK} is a link, and its target would be emptied",
                "remove it, or give another folder",
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            before = self.read_manifest()
            if before is None and any(self.path.iterdir()) and not self._only_ours():
                raise InputError(f"{excerpt(self.name)} is not empty and not a scan", "give an empty or new folder")
            if before is not None and not force:
                check_same(orjson.loads(orjson.dumps(manifest)), before["scan"], self.name)
            self._clean(everything=force or before is None)
            self.work.mkdir(exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        if before is not None and not force:
            return dict(before["progress"])
        progress = {"finished": False}
        self.write_manifest(manifest, progress)
        return progress

    def write_manifest(self, manifest: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
        """Write scan.json: the model, options and corpus of the scan (`manifest`), and how far it has come."""
        content = orjson.dumps({"scan": dict(manifest), "progress": dict(progress)}, option=orjson.OPT_INDENT_2)
        self._write(self.path / _MANIFEST, content + b"\n")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Context manager: the folder is this process's; InputError where another one scans into it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(f"{excerpt(self.name)} is a file", "results need a folder: give another name") from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            import fcntl
        except ImportError:  # Windows: nothing else is at hand that a killed process gives back
            yield
            return
        with self._lock_file() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"another process is scanning into {excerpt(self.name)}", "wait for it, or give another folder"
                ) from None
            yield

    def _lock_file(self) -> BinaryIO:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            return os.fdopen(os.open(self.path / ".lock", flags, 0o666), "rb+", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(f"can't write to {excerpt(self.name)}: {reason(error)}", "is it writable?")

    def is_claimed(self) -> bool:
        """True if a process is scanning into the folder; False, too, where that can't be told: it can't be written."""
        try:
            with self.claimed():
                return False
        except InputError:
            return True
        except OutputError:  # of another user, or on a disk that is only read
            return False

    def so_far(self) -> tuple[int, int]:
        """How many documents and tokens an unfinished scan has done, by the journal in its folder; (0, 0) for none."""
        done: dict[int, tuple[int, int]] = {}  # a shard that was begun again stands there twice
        with suppress(OSError):
            for line in (self.work / _JOURNAL).read_bytes().splitlines():
                with suppress(ValueError, TypeError, KeyError):  # the last one, half-written
                    entry = orjson.loads(line)
                    done[int(entry["shard"])] = int(entry["documents"]), int(entry["tokens"])
        return sum(documents for documents, _ in done.values()), sum(tokens for _, tokens in done.values())

    def _only_ours(self) -> bool:
        return all(file.name in (".lock", _WORK) or file.suffix == ".part" for file in self.path.iterdir())

    def _clean(self, *, everything: bool) -> None:
        for folder in (self.path, self.work):
            for file in folder.glob(".attn-*.part"):
                file.unlink()
        if everything:
            for name in (_MANIFEST, *(f"{table}.parquet" for table in TABLES)):
                (self.path / name).unlink(missing_ok=True)
            self.remove_work()

    def remove_work(self) -> None:
        """Remove the files of sums over parts of the corpus, of no use once the scan's tables are written."""
        if self.work.is_dir():
            for file in (*self.work.glob("*.npz"), *self.work.glob(".attn-*.part"), self.work / _JOURNAL):
                file.unlink(missing_ok=True)
            self.work.rmdir()

    def folded(self) -> Folded:
        """The sums of the first shards (up to 256 documents each) together, as last written; of 0 shards if never."""
        with self._spoilt_work():
            arrays = self._read(self.work / _STATE)
            if arrays is None:
                return Folded(0, 0, "", ScanSums())
            at = orjson.loads(arrays["folded"].tobytes())
            return Folded(count_of(at["shards"]), count_of(at["document"]), str(at["content"]), sums_of(arrays))

    def write_folded(self, folded: Folded) -> None:
        """Write the sums of the first shards together to one file, and remove these shards' own files."""
        at = orjson.dumps({"shards": folded.shards, "document": folded.document, "content": folded.content})
        self._save(self.work / _STATE, arrays_of(folded.sums) | {"folded": np.frombuffer(at, np.uint8)})
        for number in self.finished():
            if number < folded.shards:
                self._shard_file(number).unlink()

    def finished(self) -> set[int]:
        """The numbers, from 0, of shards (up to 256 documents each) whose sums lie in files of their own."""
        return {int(file.stem) for file in self.work.glob("*.npz") if file.stem.isdecimal()}

    def write_shard(self, number: int, sums: SumArrays, content: str, about: Mapping[str, Any]) -> None:
        """Write the sums of one shard (up to 256 documents) to a file, and a line about it to the journal."""
        self._save(self._shard_file(number), sums | {"content": np.frombuffer(content.encode(), np.uint8)})
        line = orjson.dumps({"shard": number, **about}) + b"\n"
        with (self.work / _JOURNAL).open("ab") as file:
            file.write(line)
            file.flush()

    def tokens_of_shard(self, number: int, content: str) -> int | None:
        """The number of tokens of a shard (up to 256 documents) that is done; None if not, or of other documents."""
        with self._spoilt_work():
            arrays = self._read(self._shard_file(number), ("content", "about"))
            if arrays is None or arrays["content"].tobytes().decode() != content:
                return None
            return count_of(orjson.loads(arrays["about"].tobytes())["tokens"])

    def read_shard(self, number: int) -> ScanSums:
        """The sums over the documents of a shard that is done: statistics of heads."""
        with self._spoilt_work():
            arrays = self._read(self._shard_file(number))
            assert arrays is not None
            return sums_of(arrays)

    def _spoilt_work(self) -> AbstractContextManager[None]:
        return parse_errors(f"{excerpt(self.name)}/{_WORK}", "it is damaged: --force scans anew")

    def write_table(self, name: str, table: Any) -> None:
        """Write a `pyarrow.Table` as a Parquet file of this name in the folder."""
        from pyarrow import parquet

        memory = io.BytesIO()
        parquet.write_table(table, memory, compression="zstd")
        self._write(self.path / f"{name}.parquet", memory.getvalue())

    def poison(self) -> list[PoisonRecord]:
        """The first 10,000 records that a finished scan left out, and why; InputError where their file is spoilt."""
        return [PoisonRecord(**row) for row in self.read_table("rejected", "--force scans anew").to_pylist()]

    def read_table(self, name: str, hint: str) -> Any:
        """A table of a finished scan as `pyarrow.Table`; InputError where its file is gone or spoilt."""
        try:
            from pyarrow import parquet
        except ImportError:
            raise LoadError("scans need the package pyarrow", "pip install 'attn-cli[scan]'") from None
        file = self.path / f"{name}.parquet"
        if not file.exists():
            raise InputError(f"{excerpt(str(file))} is not there", hint)
        nonempty_file(str(file))
        with parse_errors(excerpt(str(file)), hint):
            table = parquet.ParquetFile(file).read()
            check_table(name, table)
        return table

    def _shard_file(self, number: int) -> Path:
        return self.work / f"{number:08}.npz"

    def _save(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        memory = io.BytesIO()
        np.savez(memory, **arrays)  # type: ignore[arg-type]
        self._write(path, memory.getbuffer())

    @staticmethod
    def _write(path: Path, content: bytes | memoryview) -> None:
        with Sink(os.fspath(path), binary=True, force=True) as sink:
            sink.write(content)

    @staticmethod
    def _read(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray] | None:
        if kind_of_path(path, InputError) is PathKind.NOTHING:
            return None
        if not zipfile.is_zipfile(nonempty_file(str(path))):
            raise InputError(f"{excerpt(str(path))} is damaged", "--force scans anew")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names or file.files}


def content_of(shard: Shard) -> str:
    """A hash of the documents of a shard: their numbers and texts."""
    digest = hashlib.blake2b(digest_size=16)
    for document in shard.documents:
        text = document.text.encode("utf-8", "surrogatepass") if isinstance(document, Document) else b"\xff"
        digest.update(document.number.to_bytes(8, "little") + len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()
