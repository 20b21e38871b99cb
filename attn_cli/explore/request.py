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
    """What a command asks of the session or terminal: a `task` ("quit", "copy", "write" ...) and its file or text."""

    task: Task
    words: str = ""


Outcome = Viewpoint | Request
Run = Callable[[Scene, Viewpoint, str], Outcome]
Choices = Callable[[Scene, Viewpoint], Sequence[str]]
