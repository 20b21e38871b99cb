"""The outcome of a command: another viewpoint, or something that is asked of the session or the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint

Task = Literal[
    "quit",
    "copy",
    "write",
    "read",
    "ask",
    "edit",
    "mouse",
    "help",
    "find",
    "back",
    "undo",
    "picture",
]


@dataclass(frozen=True)
class Request:
    """What a command asks of the session or the terminal, in place of another viewpoint.

    task   what: "quit", "copy" the attn line, "write" a file, "read" a text, "ask" for a line ...
    words  what it is about: a file, a text, the beginning of a line that is asked for
    """

    task: Task
    words: str = ""


Outcome = Viewpoint | Request
Run = Callable[[Scene, Viewpoint, str], Outcome]
Choices = Callable[[Scene, Viewpoint], Sequence[str]]
