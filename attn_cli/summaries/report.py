"""What a command hands to a view: one text, what was found in it, and where it came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from attn_cli.prompt import Prompt
from attn_cli.summaries.reduce import Summary


class Finding(Protocol):
    """An answer that is not one per attention call: the nearest words, two contexts compared, what was learned.

    name  which one it is, for the view that draws it
    """

    name: ClassVar[str]

    def records(self) -> Iterator[dict[str, Any]]:
        """Flat rows, for csv, tsv and jsonl."""

    def document(self) -> dict[str, Any]:
        """The `result` of the JSON object."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as named arrays, for npz."""


@dataclass(frozen=True, eq=False)
class Report:
    """The answer of `command` for one prompt, or for several that are looked at together.

    source     model, type, revision, dtype, device
    summaries  one per visited attention call, in the order of the forward pass
    options    what the user asked for that a view must say or follow, such as kind ("weights" or "scores") or scale
    index      the number of the text with `--lines`, None for a single text
    finding    the answer of a command that does not answer call by call
    others     the prompts after the first, for commands that take several texts; None for those that take one
    """

    command: str
    source: Mapping[str, Any]
    prompt: Prompt
    summaries: tuple[Summary, ...]
    warnings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    index: int | None = None
    finding: Finding | None = None
    others: tuple[Prompt, ...] | None = None
