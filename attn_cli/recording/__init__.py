"""The attention of one forward pass: any cell, row, column or block of any head again, without the model.

`RecordedLayer` is an attention call with its row sums, `Recording` all of them with the text that was read.
"""

from attn_cli.recording.layer import LEVELS, MASKED, RecordedLayer, Terms
from attn_cli.recording.whole import Recording

__all__ = ["LEVELS", "MASKED", "RecordedLayer", "Recording", "Terms"]
