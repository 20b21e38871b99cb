"""Every type of vision tower that is said to be known: a patch that changes is a token that changes, the one named."""

import numpy as np
import pytest
import torch

from attn_cli.call import Call, Selection
from attn_cli.sources.huggingface.capture import capture
from attn_cli.sources.huggingface.patches import BEFORE_PATCHES, tower_tokens
from attn_cli.summaries.matrix import FullMatrix, Matrix
from attn_cli.summaries.reduce import reduce
from tests.coverage.check import built

# A type that has each kind of tower: most are found under the first part of the tower's own name.
_HOLDERS = {kind: kind.removesuffix("_vision_model").replace("blip_2", "blip-2") for kind in BEFORE_PATCHES}


def first_scores(model, inputs) -> np.ndarray:
    """The scores of the first block of the tower, in which a token's key knows its own patch alone."""
    found = []

    def visit(call: Call) -> None:
        if call.place.stream in ("vision", "self") and not found:
            matrix = reduce(call, FullMatrix(scores=True)).part(Matrix)
            assert matrix is not None and matrix.scores is not None
            found.append(matrix.scores)

    with torch.no_grad(), capture(model, visit, selection=Selection((0,))):
        model(**inputs)
    return found[0]


@pytest.mark.parametrize("tower", _HOLDERS)
def test_the_named_patch_is_the_one_that_changes(tower: str) -> None:
    model, inputs = built(_HOLDERS[tower])
    tokens = tower_tokens(model.config, inputs)
    before = first_scores(model, inputs)
    assert before.shape[-1] == len(tokens)
    rows, columns = max(t.row for t in tokens if t.row is not None), max(t.column for t in tokens if t.row is not None)
    for place in ((0, 0), (0, columns), (rows, 0), (rows, columns)):
        named = next(token.index for token in tokens if (token.row, token.column) == place)
        pixels = inputs["pixel_values"].clone()
        side = pixels.shape[-1] // (columns + 1)
        top, left = place[0] * side, place[1] * side
        pixels[:, :, top : top + side, left : left + side] += 1.5
        changed = np.abs(first_scores(model, {**inputs, "pixel_values": pixels}) - before).max(axis=0)
        assert np.flatnonzero(np.median(changed, axis=0) > 1e-5).tolist() == [named]
