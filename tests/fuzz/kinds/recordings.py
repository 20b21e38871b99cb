"""Recordings with spoilt bytes, headers and numbers."""

import random
from pathlib import Path

from tests.fuzz.forked import in_child
from tests.fuzz.kinds.archives import spoilt_tensors
from tests.fuzz.kinds.case import Case, Make

_COMMANDS = (("inspect",), ("top", "-t", "0"), ("heads",), ("heads", "--kinds"), ("matrix", "-l", "0", "-H", "0"),
             ("layers",), ("top", "--by", "output"),
             ("matrix", "-o", "w.npz"),
             ("top", "-t", "1", "--words"))  # fmt: skip


def recording(shared: Path) -> Make:
    """A recording, of a model or of a table of words, spoilt, as the model of a command."""
    in_child(_record, shared)
    good = [file.read_bytes() for file in sorted(shared.glob("*.attn"))]

    def make(folder: Path, chance: random.Random) -> Case:
        (folder / "r.attn").write_bytes(spoilt_tensors(chance.choice(good), chance))
        return Case((*chance.choice(_COMMANDS), "-m", "r.attn", *chance.choice(((), ("--json",)))))

    return make


def _record(shared: Path) -> None:
    from attn_cli import record
    from tests.fuzz.kinds.models import chatting, encoder

    record("river bank the", "toy").save(str(shared / "table.attn"))
    record("the cat sat", str(encoder(shared / "bert"))).save(str(shared / "encoder.attn"))
    record("a photo of the cat", str(chatting(shared / "llama"))).save(str(shared / "decoder.attn"))
