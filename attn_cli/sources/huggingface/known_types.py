"""Facts about single model types, by `model_type`, that can't be read off code, each of them measured."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


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
    """

    unpadded_only: bool = False
    bidirectional: bool = False
    not_autoregressive: bool = False
    padded_to_full_length: bool = False
    repeats_blocks: bool = False
    frames_per_token: int | None = None
    returns_weights: tuple[str, ...] = ()


TYPES: dict[str, ModelType] = {
    "bert-generation": ModelType(bidirectional=True),
    "big_bird": ModelType(returns_weights=("BigBirdBlockSparseAttention",)),
    "bigbird_pegasus": ModelType(returns_weights=("BigBirdPegasusBlockSparseAttention",)),
    "blt": ModelType(unpadded_only=True),
    "canine": ModelType(unpadded_only=True),
    "convbert": ModelType(unpadded_only=True),
    "cpmant": ModelType(unpadded_only=True),
    "deepseek_v4": ModelType(unpadded_only=True),
    "efficientloftr": ModelType(repeats_blocks=True),
    "fastspeech2_conformer": ModelType(unpadded_only=True),
    "fastspeech2_conformer_with_hifigan": ModelType(unpadded_only=True),
    "funnel": ModelType(unpadded_only=True),
    "hrm_text": ModelType(repeats_blocks=True),
    "longt5": ModelType(unpadded_only=True),
    "mobilebert": ModelType(unpadded_only=True),
    "moshi": ModelType(not_autoregressive=True),
    "musicgen_melody": ModelType(unpadded_only=True),
    "nystromformer": ModelType(unpadded_only=True),
    "pegasus_x": ModelType(unpadded_only=True),
    "perceiver": ModelType(unpadded_only=True),
    "reformer": ModelType(unpadded_only=True, returns_weights=("LocalSelfAttention", "LSHSelfAttention")),
    "sam3_lite_text_text_model": ModelType(unpadded_only=True),
    "siglip": ModelType(padded_to_full_length=True),
    "siglip2": ModelType(padded_to_full_length=True),
    "t5gemma2": ModelType(unpadded_only=True),
    "whisper": ModelType(frames_per_token=2),
    "xlnet": ModelType(not_autoregressive=True),
}


# The tokens that vision towers read before an image's patches, row by row, and before them registers, if they have any.
_CLS = """altclip_vision_model beit blip_2_vision_model blip_vision_model chinese_clip_vision_model clip_vision_model
    clipseg_vision_model data2vec-vision dinov2 dinov2_with_registers dinov3_vit dpt instructblip_vision_model
    internvl_vision kosmos_2_vision_model metaclip_2_vision_model mlcd_vision_model owlv2_vision_model
    owlvit_vision_model qianfan_ocr_vision vit vit_msn"""
_ALONE = """aimv2_vision_model granite_docling_vision idefics2_vision idefics3_vision ijepa janus_vision_model
    ovis2_vision pixtral siglip2_vision_model siglip_vision_model smolvlm_vision"""
BEFORE_PATCHES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_CLS.split(), ("[CLS]",)),
    **dict.fromkeys(_ALONE.split(), ()),
    "deit": ("[CLS]", "[DIST]"),
}


def names_before_patches(config: "PreTrainedConfig") -> tuple[str, ...] | None:
    """The names of the tokens before the patches of a tower; None for one that isn't known."""
    return BEFORE_PATCHES.get(str(config.model_type))


def type_of(config: "PreTrainedConfig") -> ModelType:
    """The facts noted on the type of a configuration; the defaults for any other type."""
    name = str(config.model_type)
    return TYPES.get(name, ModelType())
