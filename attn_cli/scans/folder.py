"""The folder of a scan: scan.json, and a file for each part that is done, which appears whole or not at all."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from filelock import BaseFileLock, FileLock, Timeout

from attn_cli.errors import InputError, OutputError, reason
from attn_cli.scans.texts import Shard
from attn_cli.sources.corpora import arrow
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, kind_of_path, nonempty_file
from attn_cli.text import excerpt
from attn_cli.views.sink import Sink

LAYOUT = 7
_MANIFEST = "scan.json"
DAMAGED = "a part is damaged: remove its file, and the line that began the scan makes it again"
_NAMES_ALONE = ("attn", "device", "model", "parts")  # said in scan.json, but no reason to refuse


class ScanFolder:
    """The folder `path` of a scan; `scan` is what scan.json says, {} before it is there."""

    def __init__(self, path: str) -> None:
        self.name, self.path = path, Path(path).expanduser()
        self.scan = self._read()
        self._claims: dict[int, BaseFileLock] = {}

    def _read(self) -> dict[str, Any]:
        path, label = self.path / _MANIFEST, f"{excerpt(self.name)}/{_MANIFEST}"
        if kind_of_path(path, InputError) is PathKind.NOTHING:
            return {}
        nonempty_file(str(path))
        with parse_errors(label, "is it the folder of a scan?"):
            content = orjson.loads(path.read_bytes())
            if not isinstance(content, dict):
                raise ValueError("it is no object")
            if content.get("layout") != LAYOUT:
                hint = "scan again, into another folder"
                raise InputError(f"{excerpt(self.name)} was scanned by another version of attn", hint)
            files, parts = content.get("files"), content.get("parts", 0)
            named = isinstance(files, list) and all(isinstance(x, dict) and type(x.get("name")) is str for x in files)
            if not named or type(content.get("model")) is not str or type(parts) is not int or not 0 <= parts < 2**40:
                raise ValueError("it doesn't say what was scanned")
        return content

    @property
    def id(self) -> str:
        """A hash of what is scanned and how, which is in every part of the scan."""
        said = {name: value for name, value in self.scan.items() if name not in _NAMES_ALONE}
        return hashlib.blake2b(orjson.dumps(said, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()

    def begin(self, scan: Mapping[str, Any]) -> None:
        """Make the folder one of this scan; InputError where it holds another one, or anything else."""
        now = orjson.loads(orjson.dumps({"layout": LAYOUT, **scan}))
        if not self.scan:
            with self._writing():
                self.path.mkdir(parents=True, exist_ok=True)
                is_empty = all(file.name.startswith(".") for file in self.path.iterdir())
                self.scan = self._read()  # another process may have begun it meanwhile
                if not is_empty and not self.scan:
                    raise InputError(f"{excerpt(self.name)} is not empty and not a scan", "give an empty or new folder")
                if not self.scan:
                    self.scan = now
                    self._write(_MANIFEST, orjson.dumps(now, option=orjson.OPT_INDENT_2))
        for name in dict.fromkeys((*now, *self.scan)):
            before, after = self.scan.get(name), now.get(name)
            if name not in _NAMES_ALONE and before != after:
                there, here = (excerpt(str(value), 60) for value in (before, after))
                values = "" if name in ("files", "weights") else f": {there} there, {here} now"
                line = f"{excerpt(self.name)} holds a scan with other {name}{values}"
                raise InputError(line, "give another folder, or remove this one")

    def end(self, parts: int) -> None:
        """Note how many parts the scan has, once all documents were read."""
        if self.scan.get("parts") != parts:
            self.scan["parts"] = parts
            self._write(_MANIFEST, orjson.dumps(self.scan, option=orjson.OPT_INDENT_2))

    def parts(self) -> list[int]:
        """The numbers of the parts that are done, ascending."""
        found = [file.stem.removeprefix("part-") for file in self.path.glob("part-*.parquet")]
        return sorted(int(number) for number in found if number.isdecimal())

    def open(self, number: int) -> tuple[dict[str, Any], Any]:
        """What a part says of itself, and its file; InputError for one that is damaged or of another scan."""
        path = self.file("part", number)
        with parse_errors(f"{excerpt(self.name)}/{path.name}", DAMAGED):
            file = arrow().parquet.ParquetFile(nonempty_file(str(path)), page_checksum_verification=True)
            about = orjson.loads((file.schema_arrow.metadata or {}).get(b"attn", b"{}"))
            counts = [about.get(name) for name in ("documents", "heads", "tokens", "records")]
            if not all(type(count) is int and 0 <= count < 2**48 for count in counts):
                raise ValueError("it doesn't say what it holds")
            if file.metadata.num_rows != counts[0] * counts[1]:
                raise ValueError("it has other rows than it says")
            if (about.get("scan"), about.get("part")) != (self.id, number):
                hint = "remove it, or give the folder that it came from"
                raise InputError(f"{excerpt(self.name)}/{path.name} is a part of another scan", hint)
        return about, file

    def rejects(self) -> Iterator[dict[str, Any]]:
        """The records of all parts that could not be scanned, and why."""
        for number in self.parts():
            path = self.file("rejects", number)
            if kind_of_path(path, InputError) is not PathKind.NOTHING:
                with parse_errors(f"{excerpt(self.name)}/{path.name}", DAMAGED):
                    yield from arrow().parquet.ParquetFile(nonempty_file(str(path))).read().to_pylist()

    def has(self, shard: Shard) -> bool:
        """True if the shard's part is done; InputError where its file is of other documents."""
        if kind_of_path(self.file("part", shard.number), InputError) is PathKind.NOTHING:
            return False
        if self.open(shard.number)[0].get("content") != shard.content:
            line = f"{excerpt(self.name)}/{self.file('part', shard.number).name} is of other documents"
            raise InputError(line, "give the documents that the scan was begun with")
        return True

    def file(self, what: str, number: int) -> Path:
        """The path of a part's file, or of the file of its rejects."""
        return self.path / f"{what}-{number:05}.parquet"

    def claim(self, number: int) -> bool:
        """Take a part for this process; False where another one has it, or has made it meanwhile."""
        lock = FileLock(self.path / f".part-{number:05}", timeout=0)
        with self._writing():
            try:
                lock.acquire()
            except Timeout:
                return False
        self._claims[number] = lock
        if self.file("part", number).exists():
            self.release(number)
            return False
        return True

    def keep(self, number: int, part: bytes, rejects: bytes) -> None:
        """Write the file of a part that was claimed, and before it that of its rejects."""
        with self._writing():
            if rejects:
                self._write(self.file("rejects", number).name, rejects)
            self._write(self.file("part", number).name, part)
        self.release(number)

    def release(self, *numbers: int) -> None:
        """Give back these parts, or all that were claimed and not made."""
        for number in numbers or [*self._claims]:
            lock = self._claims.pop(number)
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    def counts(self) -> dict[str, Any]:
        """What all parts hold: documents, records, tokens, parts, missing, rejected, and rejected records by reason."""
        done = [self.open(number)[0] for number in self.parts()]
        reasons = Counter(str(row["reason"]) for row in self.rejects())
        counts = {name: sum(about[name] for about in done) for name in ("documents", "records", "tokens")}
        counts |= {"parts": len(done), "missing": max(0, self.scan.get("parts", 0) - len(done))}
        return {**counts, "rejected": reasons.total(), "reasons": dict(reasons.most_common())}

    def _write(self, name: str, content: bytes) -> None:
        with Sink(os.fspath(self.path / name), binary=True, force=True) as sink:
            sink.write(content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise InputError(f"{excerpt(self.name)} is a file", "results need a folder: give another name") from None
        except OSError as error:
            raise OutputError(f"can't write to {excerpt(self.name)}: {reason(error)}", "is it writable?") from None
