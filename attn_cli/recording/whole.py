"""A recording: the attention of one text in every layer that was looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attn_cli.prompt import Prompt
from attn_cli.recording.layer import RecordedLayer


@dataclass(frozen=True, eq=False)
class Recording:
    """One text that a model has read.

    about   the source: model, type, revision, dtype, device
    prompt  the text, and its tokens
    layers  in the order of the forward pass, those of all streams
    """

    about: Mapping[str, Any]
    prompt: Prompt
    layers: tuple[RecordedLayer, ...]
