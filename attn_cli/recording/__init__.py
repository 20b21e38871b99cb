"""The attention of one forward pass: any cell, row, column or block of any head again, without the model."""

from attn_cli.recording.layer import RecordedLayer, Terms
from attn_cli.recording.whole import Recording

__all__ = ["RecordedLayer", "Recording", "Terms"]
