"""A model run with capture on, and run plainly: what the tests of captured attention compare."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf

TEXT = "He sat on the river bank, and the bank approved his loan."


@dataclass
class CapturedRun:
    """The model's outputs, and a summary of every call that the visitor got, in order."""

    outputs: Any = None
    summaries: list[Summary] = field(default_factory=list)

    def of(self, layer: int, text: int = 0, stream: str = "self") -> Summary:
        place = (layer, text, stream)
        summaries = [s for s in self.summaries if (s.place.layer, s.place.text, s.place.stream) == place]
        assert len(summaries) == 1, f"{place} was seen {len(summaries)} times"
        return summaries[0]

    def weights(self, layer: int, text: int = 0, stream: str = "self") -> np.ndarray:
        return self._matrix(layer, text, stream).weights

    def scores(self, layer: int, text: int = 0, stream: str = "self") -> np.ndarray:
        return self._matrix(layer, text, stream).scores

    def _matrix(self, layer: int, text: int, stream: str) -> Matrix:
        matrix = self.of(layer, text, stream).part(Matrix)
        assert matrix is not None
        return matrix


def run_captured(model: PreTrainedModel, inputs: dict[str, Any], selection: Selection | None = None) -> CapturedRun:
    run = CapturedRun()

    def visit(call: Call) -> None:
        run.summaries.append(reduce(call, MatrixOf(kinds=("weights", "scores"))))

    with capture(model, visit, selection=selection or Selection()), torch.no_grad():
        run.outputs = model(**inputs)
    return run


def run_plain(model: PreTrainedModel, inputs: dict[str, Any], **options: Any) -> Any:
    with torch.no_grad():
        return model(**inputs, **options)
