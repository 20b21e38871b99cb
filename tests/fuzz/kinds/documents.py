"""Small files of text that a command reads: the messages of a chat."""

import json
import random
from pathlib import Path

from tests.fuzz.kinds.case import Case, Make
from tests.fuzz.preloaded import preload
from tests.spoiling import spoilt_json

_MESSAGES = [{"role": "user", "content": "what is here ?"}, {"role": "assistant", "content": "a cat"}]
_ROLES = ("user", "system", "assistant", "tool", "", "\x1b[31m", "\ud800", "{{ 7*7 }}", "a" * 9000)
_CONTENTS = ("the cat", "", "\x1b[31mred", "\ud800", "{% raw %}", "cat " * 90, None, [],
             [{"type": "text", "text": "cat"}], [{"type": "image"}], 7)  # fmt: skip


def messages(shared: Path) -> Make:
    """The messages of a chat, spoilt."""
    from tests.fuzz.kinds.models import chatting

    model = str(chatting(shared / "llama"))
    preload(shared / "llama")

    def make(folder: Path, chance: random.Random) -> Case:
        content: object = _MESSAGES
        if chance.random() < 0.5:
            content = [{"role": chance.choice(_ROLES), "content": chance.choice(_CONTENTS)}] * chance.choice((1, 2, 30))
        written = json.dumps(content).encode()
        (folder / "m.json").write_bytes(spoilt_json(written, chance) if chance.random() < 0.6 else written)
        more = chance.choice(((), ("hi",))), chance.choice(((), ("--json",)))
        return Case(("top", *more[0], "-m", model, "--messages", "m.json", *more[1]))

    return make
