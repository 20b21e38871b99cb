"""Folders of scans, half done and finished, that were damaged or tampered with."""

import io
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from attn_cli.scans.read import shards
from attn_cli.scans.run import run
from attn_cli.scans.run.run import ScanProgress
from tests.fuzz.forked import in_child
from tests.fuzz.kinds.archives import spoilt_archive
from tests.fuzz.kinds.case import Case, Make
from tests.fuzz.preloaded import preload
from tests.spoiling import spoilt, spoilt_json

_DOCUMENTS = 15
_LOOKS = ((), ("--head", "0.1"), ("--head", "1.0"), ("--sort", "entropy"), ("--kind", "first"), ("--text", "3"),
          ("--against", "good"))  # fmt: skip


class _EnoughError(Exception):
    """Ends a scan in the middle."""


def scan(shared: Path) -> Make:
    """A scan that goes on where another one ended, in a folder whose files were changed since."""
    shards.DOCUMENTS, run._SHARDS_APART = 3, 2  # in the cases too, which are forked from here
    in_child(_scan, shared, "half", 12)
    in_child(_scan, shared, "whole")
    preload(shared / "bert")

    def make(folder: Path, chance: random.Random) -> Case:
        copy = Path(shutil.copytree(shared / ("half" if chance.random() < 0.9 else "whole"), folder / "s"))
        changed = _spoil_one(copy, chance)
        return Case(
            ("scan", str(shared / "lines.txt"), "-m", str(shared / "bert"), "-o", "s"), kept=frozenset([changed])
        )

    return make


def scan_show(shared: Path) -> Make:
    """A look at a finished scan whose files were changed since."""
    in_child(_scan, shared, "whole")

    def make(folder: Path, chance: random.Random) -> Case:
        copy, look = Path(shutil.copytree(shared / "whole", folder / "s")), chance.choice(_LOOKS)
        if "--against" in look:
            shutil.copytree(shared / "whole", folder / "good")
        changed = _spoil_one(copy, chance)
        as_json = () if "--text" in look else chance.choice(((), ("--json",)))
        return Case(("scan", "show", "s", *look, *as_json), kept=frozenset([changed]))

    return make


def _scan(shared: Path, name: str, ends_at: int = _DOCUMENTS) -> None:
    """Scan lines into the folder `name`, and stop once so many are done and some sums are written together."""
    from attn_cli.scans.run.scan import scan
    from tests.fuzz.kinds.models import encoder
    from tests.media import WORDS

    file, chance = shared / "lines.txt", random.Random(0)
    file.write_text("".join(f"{' '.join(chance.choices(WORDS, k=chance.randint(2, 9)))}\n" for _ in range(_DOCUMENTS)))

    def report(progress: ScanProgress) -> None:
        if progress.records == ends_at < _DOCUMENTS:
            raise _EnoughError

    with suppress(_EnoughError):
        scan(str(encoder(shared / "bert")), str(file), str(shared / name), report=report)
    assert (shared / name / "work" / "state.npz").exists() == (ends_at < _DOCUMENTS)


def _spoil_one(folder: Path, chance: random.Random) -> str:
    """Change one file of a scan; returns its name in the case's folder."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != ".lock"]
    file = chance.choice([*files, *(file for file in files if file.suffix == ".npz")])
    content = file.read_bytes()
    if chance.random() < 0.05:
        file.unlink()
    elif file.suffix == ".npz":
        file.write_bytes(spoilt_archive(content, chance))
    elif file.suffix == ".json":
        file.write_bytes(spoilt_json(content, chance))
    elif file.suffix == ".parquet" and chance.random() < 0.8:
        file.write_bytes(_spoilt_table(content, chance))
    else:
        file.write_bytes(spoilt(content, chance))
    return str(file.relative_to(folder.parent))


def _spoilt_table(content: bytes, chance: random.Random) -> bytes:
    """A table with other rows, or with other values in a column of the same type."""
    table = parquet.read_table(io.BytesIO(content))
    if not len(table):
        return spoilt(content, chance)
    if chance.random() < 0.2:
        rows = [chance.randrange(len(table)) for _ in range(chance.randint(0, 9))]
        changed = table.take(pa.array(rows, pa.int64()))
    else:
        at = chance.randrange(table.num_columns)
        field = table.schema.field(at)
        values, odd = table.column(at).to_pylist(), _odd(field.type, chance)
        for row in chance.sample(range(len(values)), chance.choice((1, len(values)))):
            values[row] = odd
        changed = table.set_column(at, field, pa.array(values, field.type))
    file = io.BytesIO()
    parquet.write_table(changed, file)
    return file.getvalue()


def _odd(kind: pa.DataType, chance: random.Random) -> object:
    """A value that no scan would write, of a column's type."""
    if pa.types.is_list(kind):
        return [] if chance.random() < 0.5 else [_odd(kind.value_type, chance)] * chance.randint(1, 9)
    if pa.types.is_string(kind):
        return chance.choice(("", "x", "\x1b[31mX", "self", None, "previous", "a" * 5000))
    if pa.types.is_boolean(kind):
        return chance.choice((True, False, None))
    if pa.types.is_integer(kind):
        return chance.choice((0, 1, -1, 7, 2**31 - 1, -(2**31), None, *((2**62,) if kind.bit_width == 64 else ())))
    return chance.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), None))
