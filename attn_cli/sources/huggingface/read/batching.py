"""Which models may read texts of different lengths in one padded batch, and which have to read one at a time."""

import inspect

from transformers import PreTrainedModel

from attn_cli.sources.huggingface.known_types import type_of


def reads_alone(model: PreTrainedModel) -> bool:
    """Whether texts must not be padded: padding would change the model's attention, or can't be masked."""
    parameters = inspect.signature(model.forward).parameters
    return type_of(model.config).reads_alone or "attention_mask" not in parameters
