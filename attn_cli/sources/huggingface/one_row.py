"""Models whose hidden states are the same for packed (varlen) inputs as for a padded batch, found by a probe."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.configuration import is_pair, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.observed import ObservedAttention
from attn_cli.sources.huggingface.capture.row_of_texts import NotInOneRowError, RowOfTexts
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.read.padding import padded, unpadded_only
from attn_cli.sources.huggingface.read.positions import counted_from, position_count

_LENGTHS = (5, 11, 2, 8)
_LONGEST_ROW = 4096 + 128  # tokens; a model of as many positions is tried on four texts alone
_TOLERANCE = 1e-4  # of the largest number: rounding, not the influence of another token or position


def supports_packing(model: PreTrainedModel) -> bool:
    """True if the model gives packed texts, in one row of tokens, the vectors that it gives them as a padded batch."""
    parameters = signature(model.forward).parameters
    if (
        model.device.type != "cpu"
        or model.dtype != torch.float32
        or is_pair(model)
        or not {"input_ids", "attention_mask", "position_ids"} <= set(parameters)
        or unpadded_only(model)
    ):
        return False
    ids = _texts(model)
    texts = RowOfTexts(ids, padded(ids, 0, model.device), counted_from(model))
    try:
        with torch.no_grad():
            together = _hidden(model, texts.arguments, texts)
            apart = _hidden(model, texts.padded, None)
            apart = texts.without_padding(apart[:, None])[0]
    except (NotInOneRowError, *INPUT_ERRORS):
        return False
    real = torch.from_numpy(texts.rows.places >= 0)
    difference = (together - apart)[:, real].abs().max()
    return bool(difference <= _TOLERANCE * apart[:, real].abs().max())


def _texts(model: PreTrainedModel) -> list[np.ndarray]:
    positions = position_count(model) or _LONGEST_ROW
    lengths = [min(length, positions) for length in _LENGTHS]
    if positions < _LONGEST_ROW:
        lengths *= positions // sum(lengths) + 1
    random = np.random.default_rng(0)
    size = number_of(text_configuration(model.config), "vocab_size") or 1
    return [random.integers(0, size, length) for length in lengths]


def _hidden(model: PreTrainedModel, arguments: Mapping[str, Any], texts: RowOfTexts | None) -> torch.Tensor:
    ledger = Ledger(model, Selection(layers=()), unlabelled(model))
    with Capture(model, ObservedAttention(ledger, lambda call: None, row_of_texts=texts)):
        output: torch.Tensor = model(**arguments)[0]
    return output
