"""What a command hands to a view: one text, what was found in it, and where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_cli.call import Prompt
from attn_cli.summaries.reduce import Summary


@dataclass(frozen=True, eq=False)
class Report:
    """The answer of `command` for one prompt.

    source     model, type, revision, dtype, device
    summaries  one per visited attention call, in the order of the forward pass
    options    what the user asked for that a view must say or follow, such as kind ("weights" or "scores") or scale
    index      the number of the text with `--lines`, None for a single text
    """

    command: str
    source: Mapping[str, Any]
    prompt: Prompt
    summaries: tuple[Summary, ...]
    warnings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    index: int | None = None
