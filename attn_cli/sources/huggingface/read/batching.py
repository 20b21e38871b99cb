"""Which models may read texts of different lengths in one padded batch, and which have to read one at a time."""

import inspect

from transformers import PreTrainedModel

# Padding reaches the tokens beside it here: by convolutions over neighbours, pooled or hashed pieces of the text,
# positions and patches counted from its end, keys put behind its last one. Measured for every type by
# tests/architectures.
_NAMES = """blt canine convbert cpmant deepseek_v4 fastspeech2_conformer fastspeech2_conformer_with_hifigan funnel
    longt5 mobilebert musicgen_melody nystromformer pegasus_x perceiver reformer sam3_lite_text_text_model t5gemma2"""
ALONE = frozenset(_NAMES.split())


def reads_alone(model: PreTrainedModel) -> bool:
    """Whether padding would change what the model makes of a text, so that it must not be padded."""
    takes = inspect.signature(model.forward).parameters
    return model.config.model_type in ALONE or "attention_mask" not in takes
