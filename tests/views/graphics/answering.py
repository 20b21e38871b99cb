"""Terminals that answer questions as others do, and readers of the pictures that they are sent."""

import base64
import io
import re
from collections.abc import Mapping

import numpy as np
from PIL import Image

from tests.explore.terminal import Terminal

ATTRIBUTES, NAME, CELL, COLORS = b"\x1b[c", b"\x1b[>q", b"\x1b[16t", b"\x1b[?1;1;0S"
KITTY = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
CELL_SIZE = (8, 16)  # width and height in pixels

ANSWERS: dict[str, Mapping[bytes, bytes]] = {
    "kitty": {
        KITTY: b"\x1b_Gi=31;OK\x1b\\",
        NAME: b"\x1bP>|kitty(0.32.2)\x1b\\",
        CELL: b"\x1b[6;16;8t",
        ATTRIBUTES: b"\x1b[?62;c",
    },
    "konsole": {  # that it doesn't know the question's medium
        KITTY: b"\x1b_Gi=31;EINVAL:bad\x1b\\",
        ATTRIBUTES: b"\x1b[?62;1;22c",
    },
    "iterm": {NAME: b"\x1bP>|iTerm2 3.5.0\x1b\\", CELL: b"\x1b[6;16;8t", ATTRIBUTES: b"\x1b[?64;1;2;4;6;17;18;21;22c"},
    "sixel": {
        NAME: b"\x1bP>|XTerm(390)\x1b\\",
        CELL: b"\x1b[6;16;8t",
        COLORS: b"\x1b[?1;0;256S",
        ATTRIBUTES: b"\x1b[?63;1;2;4;6;9;15;22c",
    },
    "vt340": {CELL: b"\x1b[6;16;8t", COLORS: b"\x1b[?1;0;16S", ATTRIBUTES: b"\x1b[?63;1;2;4;6;9;15;22c"},
    "xterm": {NAME: b"\x1bP>|XTerm(390)\x1b\\", ATTRIBUTES: b"\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c"},
    "mute": {},
}
_STRINGS = re.compile(rb"\x1b_[^\x1b]*\x1b\\|\x1bP[^\x1b]*\x1b\\|\x1b\]1337[^\a]*\a")
_BEGUN = re.compile(rb"\x1b(_|P|\]1337)")
_QUESTION = re.compile(b"|".join(map(re.escape, (ATTRIBUTES, NAME, CELL, COLORS, KITTY))))


class AnsweringTerminal(Terminal):
    """A terminal that answers as one of `ANSWERS` does.

    asked  the questions, in order
    typed  keys that a person types at the first question, before it is answered
    """

    def __init__(self, kind: str, *arguments: object, typed: bytes = b"", **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.answers, self.asked, self.typed = ANSWERS[kind], list[bytes](), typed
        self.unfinished = b""

    def read(self, seconds: float = 0.05) -> bytes:
        """The output within some time, with its questions answered."""
        before = len(self.log)
        data = super().read(seconds)
        for found in _QUESTION.finditer(self.log):
            if found.end() > before:
                self._answer(found[0])
        return data

    def show(self, data: bytes) -> None:
        """Put it on the screen but for pictures and questions, which the screen of these tests doesn't know."""
        whole = self.unfinished + data if hasattr(self, "unfinished") else data
        whole = _STRINGS.sub(b"", whole)
        at = whole.rfind(b"\x1b")
        at = at if (begun := _BEGUN.search(whole)) is None else begun.start()
        self.unfinished = whole[at:] if at >= 0 and (begun or at > len(whole) - 3) else b""
        super().show(whole[: len(whole) - len(self.unfinished)])

    def _answer(self, question: bytes) -> None:
        self.asked.append(question)
        if self.typed:
            self.process.send(self.typed)
            self.typed = b""
        if question in self.answers:
            self.process.send(self.answers[question])


def kitty_pictures(log: bytes) -> list[tuple[dict[str, str], np.ndarray]]:
    """The keys and pixels `[h, w, 3]` of every picture that was sent in kitty's protocol."""
    found, data, keys = [], b"", dict[str, str]()
    for head, body in re.findall(rb"\x1b_G([^;\x1b]*);([^\x1b]*)\x1b\\", log):
        here = dict(pair.split("=") for pair in head.decode().split(","))
        if here.get("a") == "q":
            continue
        assert len(body) <= 4096
        keys, data = keys or here, data + body
        if here["m"] == "0":
            found.append((keys, _decoded(data)))
            data, keys = b"", {}
    return found


def iterm_pictures(log: bytes) -> list[tuple[dict[str, str], np.ndarray]]:
    """The same of iTerm2's inline images."""
    return [
        (dict(pair.split("=") for pair in head.decode().split(";")), _decoded(body))
        for head, body in re.findall(rb"\x1b\]1337;File=([^:]*):([^\a]*)\a", log)
    ]


def _decoded(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))


def sixel_pictures(log: bytes) -> list[tuple[int, np.ndarray]]:
    """The number of colours and the pixels `[h, w, 3]` of every picture in sixels; every pixel is set."""
    return [_sixels(body.decode()) for body in re.findall(rb"\x1bP[\d;]*q([^\x1b]*)\x1b\\", log)]


def _sixels(body: str) -> tuple[int, np.ndarray]:
    size = re.match(r'"1;1;(\d+);(\d+)', body)
    assert size
    width, height = int(size[1]), int(size[2])
    pixels = np.full((-(-height // 6) * 6, width, 3), -1)
    palette = dict[int, np.ndarray]()
    x = y = color = 0
    for register, _, components, run, mark, other in re.findall(
        r"#(\d+)(;2;(\d+;\d+;\d+))?|(?:!(\d+))?([?-~])|([$-])", body[size.end() :]
    ):
        if components:
            palette[int(register)] = np.array([int(part) * 2.55 for part in components.split(";")]).round()
        elif register:
            color = int(register)
        elif mark:
            bits, length = ord(mark) - 63, int(run or 1)
            for row in range(6):
                if bits >> row & 1:
                    pixels[y + row, x : x + length] = palette[color]
            x += length
        else:
            x, y = 0, y + 6 * (other == "-")
    assert (pixels[:height] >= 0).all() and (pixels[height:] < 0).all()
    return len(palette), pixels[:height]
