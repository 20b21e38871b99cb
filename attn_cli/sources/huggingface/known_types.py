"""Facts about single model types, by `model_type`, that can't be read off code, each of them measured."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

CLS = "[CLS]"
DISTILLATION = "[DIST]"
REGISTERS = "registers"  # as many tokens as the tower's configuration gives as num_register_tokens


@dataclass(frozen=True)
class ModelType:
    """Facts about one model type; the defaults hold for a type without an entry.

    unpadded_only          Padding changes the weights between a text's tokens, so texts are not padded into one batch.
                           Measured for every type by tests/architectures.
    bidirectional          Tokens attend to later ones unless the configuration says is_decoder, so that it can't
                           generate. Needed only for types without a masked-language class.
    not_autoregressive     What it generates does not follow from a pass over what it has read and generated: XLNet
                           predicts a place without its token, Moshi hears itself. Measured for every type.
    padded_to_full_length  It was trained on texts padded to its whole number of positions, and reads the padding too.
    repeats_blocks         Blocks run again after the last one, so that a pass can't be ended after a chosen layer.
    frames_per_token       How many frames of a spectrogram a token of the audio encoder holds; None where unknown.
    returns_weights        Attention classes without softmax or SDPA on `[n, m]` that return weights on request.
    before_patches         The tokens that a vision tower reads before an image's patches, row by row; None where its
                           order is another or unknown.
    """

    unpadded_only: bool = False
    bidirectional: bool = False
    not_autoregressive: bool = False
    padded_to_full_length: bool = False
    repeats_blocks: bool = False
    frames_per_token: int | None = None
    returns_weights: tuple[str, ...] = ()
    before_patches: tuple[str, ...] | None = None


TYPES: dict[str, ModelType] = {
    "aimv2_vision_model": ModelType(before_patches=()),
    "altclip_vision_model": ModelType(before_patches=(CLS,)),
    "beit": ModelType(before_patches=(CLS,)),
    "bert-generation": ModelType(bidirectional=True),
    "big_bird": ModelType(returns_weights=("BigBirdBlockSparseAttention",)),
    "bigbird_pegasus": ModelType(returns_weights=("BigBirdPegasusBlockSparseAttention",)),
    "blip_2_vision_model": ModelType(before_patches=(CLS,)),
    "blip_vision_model": ModelType(before_patches=(CLS,)),
    "blt": ModelType(unpadded_only=True),
    "canine": ModelType(unpadded_only=True),
    "chinese_clip_vision_model": ModelType(before_patches=(CLS,)),
    "clip_vision_model": ModelType(before_patches=(CLS,)),
    "clipseg_vision_model": ModelType(before_patches=(CLS,)),
    "convbert": ModelType(unpadded_only=True),
    "cpmant": ModelType(unpadded_only=True),
    "data2vec-vision": ModelType(before_patches=(CLS,)),
    "deepseek_v4": ModelType(unpadded_only=True),
    "deit": ModelType(before_patches=(CLS, DISTILLATION)),
    "dinov2": ModelType(before_patches=(CLS,)),
    "dinov2_with_registers": ModelType(before_patches=(CLS, REGISTERS)),
    "dinov3_vit": ModelType(before_patches=(CLS, REGISTERS)),
    "dpt": ModelType(before_patches=(CLS,)),
    "efficientloftr": ModelType(repeats_blocks=True),
    "fastspeech2_conformer": ModelType(unpadded_only=True),
    "fastspeech2_conformer_with_hifigan": ModelType(unpadded_only=True),
    "funnel": ModelType(unpadded_only=True),
    "granite_docling_vision": ModelType(before_patches=()),
    "hrm_text": ModelType(repeats_blocks=True),
    "idefics2_vision": ModelType(before_patches=()),
    "idefics3_vision": ModelType(before_patches=()),
    "ijepa": ModelType(before_patches=()),
    "instructblip_vision_model": ModelType(before_patches=(CLS,)),
    "internvl_vision": ModelType(before_patches=(CLS,)),
    "janus_vision_model": ModelType(before_patches=()),
    "kosmos_2_vision_model": ModelType(before_patches=(CLS,)),
    "longt5": ModelType(unpadded_only=True),
    "metaclip_2_vision_model": ModelType(before_patches=(CLS,)),
    "mlcd_vision_model": ModelType(before_patches=(CLS,)),
    "mobilebert": ModelType(unpadded_only=True),
    "moshi": ModelType(not_autoregressive=True),
    "musicgen_melody": ModelType(unpadded_only=True),
    "nystromformer": ModelType(unpadded_only=True),
    "ovis2_vision": ModelType(before_patches=()),
    "owlv2_vision_model": ModelType(before_patches=(CLS,)),
    "owlvit_vision_model": ModelType(before_patches=(CLS,)),
    "pegasus_x": ModelType(unpadded_only=True),
    "perceiver": ModelType(unpadded_only=True),
    "pixtral": ModelType(before_patches=()),
    "qianfan_ocr_vision": ModelType(before_patches=(CLS,)),
    "reformer": ModelType(unpadded_only=True, returns_weights=("LocalSelfAttention", "LSHSelfAttention")),
    "sam3_lite_text_text_model": ModelType(unpadded_only=True),
    "siglip": ModelType(padded_to_full_length=True),
    "siglip2": ModelType(padded_to_full_length=True),
    "siglip2_vision_model": ModelType(before_patches=()),
    "siglip_vision_model": ModelType(before_patches=()),
    "smolvlm_vision": ModelType(before_patches=()),
    "t5gemma2": ModelType(unpadded_only=True),
    "vit": ModelType(before_patches=(CLS,)),
    "vit_msn": ModelType(before_patches=(CLS,)),
    "whisper": ModelType(frames_per_token=2),
    "xlnet": ModelType(not_autoregressive=True),
}


def type_of(config: "PreTrainedConfig") -> ModelType:
    """The facts noted on the type of a configuration; the defaults for any other type."""
    name = str(config.model_type)
    return TYPES.get(name, ModelType())
