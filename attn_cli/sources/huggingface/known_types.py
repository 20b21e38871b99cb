"""Facts about single model types, by `model_type`, that can't be read off code, each of them measured."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

CLS = "[CLS]"
DISTILLATION = "[DIST]"
REGISTERS = "registers"  # as many tokens as the tower's configuration gives as num_register_tokens


@dataclass(frozen=True)
class RowByRow:
    """A tower that sees patches row by row, after tokens such as "[CLS]" or as many "registers" as configured."""

    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class MergedSquares:
    """A tower that gets squares of patches, each a token of the text, perhaps in `windows` of `window_size` pixels."""

    windows: bool = False


class Tiles(Enum):
    """The axis of `pixel_values` that holds the tiles of one image, for a tower that sees them one by one."""

    BATCH = "batch"
    SECOND = "second"


@dataclass(frozen=True)
class Squares:
    """A text that holds a token for each square of patches.

    side           the configuration's field with a square's width in patches, or the reciprocal of that
    square_images  whether the model takes every image, or tile, for as wide as it is high
    """

    side: str
    square_images: bool = False


@dataclass(frozen=True)
class PackedTiles:
    """A text with a token for each patch of the joined tiles and each row's end; `shrinks` coarsens large grids."""

    shrinks: bool = False


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
    vision                 The order in which the vision tower sees patches ("given grid": row by row in one axis,
                           their grid in `spatial_shapes`, and padding)
    image_tokens           Which patches an image's tokens hold: "each patch", or cells' means of a "coarser grid"; None
                           where unknown.
    """

    unpadded_only: bool = False
    bidirectional: bool = False
    not_autoregressive: bool = False
    padded_to_full_length: bool = False
    repeats_blocks: bool = False
    frames_per_token: int | None = None
    returns_weights: tuple[str, ...] = ()
    vision: RowByRow | Literal["given grid"] | MergedSquares | None = None
    tiles: Tiles | None = None
    image_tokens: Literal["each patch", "coarser grid"] | Squares | PackedTiles | None = None


TYPES: dict[str, ModelType] = {
    "aimv2_vision_model": ModelType(vision=RowByRow()),
    "altclip_vision_model": ModelType(vision=RowByRow((CLS,))),
    "aya_vision": ModelType(tiles=Tiles.BATCH, image_tokens=Squares("downsample_factor", square_images=True)),
    "beit": ModelType(vision=RowByRow((CLS,))),
    "bert-generation": ModelType(bidirectional=True),
    "big_bird": ModelType(returns_weights=("BigBirdBlockSparseAttention",)),
    "bigbird_pegasus": ModelType(returns_weights=("BigBirdPegasusBlockSparseAttention",)),
    "blip_2_vision_model": ModelType(vision=RowByRow((CLS,))),
    "blip_vision_model": ModelType(vision=RowByRow((CLS,))),
    "blt": ModelType(unpadded_only=True),
    "canine": ModelType(unpadded_only=True),
    "chinese_clip_vision_model": ModelType(vision=RowByRow((CLS,))),
    "clip_vision_model": ModelType(vision=RowByRow((CLS,))),
    "clipseg_vision_model": ModelType(vision=RowByRow((CLS,))),
    "cohere2_vision": ModelType(tiles=Tiles.BATCH, image_tokens=Squares("downsample_factor", square_images=True)),
    "convbert": ModelType(unpadded_only=True),
    "cpmant": ModelType(unpadded_only=True),
    "data2vec-vision": ModelType(vision=RowByRow((CLS,))),
    "deepseek_v4": ModelType(unpadded_only=True),
    "deepseek_vl": ModelType(image_tokens="each patch"),
    "deit": ModelType(vision=RowByRow((CLS, DISTILLATION))),
    "dinov2": ModelType(vision=RowByRow((CLS,))),
    "dinov2_with_registers": ModelType(vision=RowByRow((CLS, REGISTERS))),
    "dinov3_vit": ModelType(vision=RowByRow((CLS, REGISTERS))),
    "dpt": ModelType(vision=RowByRow((CLS,))),
    "efficientloftr": ModelType(repeats_blocks=True),
    "fastspeech2_conformer": ModelType(unpadded_only=True),
    "fastspeech2_conformer_with_hifigan": ModelType(unpadded_only=True),
    "funnel": ModelType(unpadded_only=True),
    "gemma3": ModelType(tiles=Tiles.BATCH, image_tokens="coarser grid"),
    "glm4v": ModelType(vision=MergedSquares()),
    "glm4v_moe": ModelType(vision=MergedSquares()),
    "glm_ocr": ModelType(vision=MergedSquares()),
    "granite_docling_vision": ModelType(vision=RowByRow()),
    "hrm_text": ModelType(repeats_blocks=True),
    "idefics2": ModelType(tiles=Tiles.SECOND),
    "idefics2_vision": ModelType(vision=RowByRow()),
    "idefics3": ModelType(tiles=Tiles.SECOND, image_tokens=Squares("scale_factor", square_images=True)),
    "idefics3_vision": ModelType(vision=RowByRow()),
    "ijepa": ModelType(vision=RowByRow()),
    "instructblip_vision_model": ModelType(vision=RowByRow((CLS,))),
    "internvl": ModelType(tiles=Tiles.BATCH, image_tokens=Squares("downsample_ratio", square_images=True)),
    "internvl_vision": ModelType(vision=RowByRow((CLS,))),
    "janus": ModelType(image_tokens="each patch"),
    "janus_vision_model": ModelType(vision=RowByRow()),
    "kosmos_2_vision_model": ModelType(vision=RowByRow((CLS,))),
    "lfm2_vl": ModelType(image_tokens=Squares("downsample_factor")),
    "llava": ModelType(image_tokens="each patch"),
    "llava_next": ModelType(tiles=Tiles.SECOND, image_tokens=PackedTiles()),
    "llava_onevision": ModelType(tiles=Tiles.SECOND, image_tokens=PackedTiles(shrinks=True)),
    "longt5": ModelType(unpadded_only=True),
    "metaclip_2_vision_model": ModelType(vision=RowByRow((CLS,))),
    "mistral3": ModelType(image_tokens=Squares("spatial_merge_size")),
    "mlcd_vision_model": ModelType(vision=RowByRow((CLS,))),
    "mobilebert": ModelType(unpadded_only=True),
    "moshi": ModelType(not_autoregressive=True),
    "musicgen_melody": ModelType(unpadded_only=True),
    "nystromformer": ModelType(unpadded_only=True),
    "ovis2_vision": ModelType(vision=RowByRow()),
    "owlv2_vision_model": ModelType(vision=RowByRow((CLS,))),
    "owlvit_vision_model": ModelType(vision=RowByRow((CLS,))),
    "paligemma": ModelType(image_tokens="each patch"),
    "pegasus_x": ModelType(unpadded_only=True),
    "perceiver": ModelType(unpadded_only=True),
    "pixtral": ModelType(vision=RowByRow()),
    "qianfan_ocr_vision": ModelType(vision=RowByRow((CLS,))),
    "qwen2_5_vl": ModelType(vision=MergedSquares(windows=True)),
    "qwen2_vl": ModelType(vision=MergedSquares()),
    "qwen3_5": ModelType(vision=MergedSquares()),
    "qwen3_5_moe": ModelType(vision=MergedSquares()),
    "qwen3_vl": ModelType(vision=MergedSquares()),
    "qwen3_vl_moe": ModelType(vision=MergedSquares()),
    "reformer": ModelType(unpadded_only=True, returns_weights=("LocalSelfAttention", "LSHSelfAttention")),
    "sam3_lite_text_text_model": ModelType(unpadded_only=True),
    "siglip": ModelType(padded_to_full_length=True),
    "siglip2": ModelType(padded_to_full_length=True),
    "siglip2_vision_model": ModelType(vision="given grid"),
    "siglip_vision_model": ModelType(vision=RowByRow()),
    "smolvlm": ModelType(tiles=Tiles.SECOND, image_tokens=Squares("scale_factor", square_images=True)),
    "smolvlm_vision": ModelType(vision=RowByRow()),
    "t5gemma2": ModelType(unpadded_only=True),
    "vipllava": ModelType(image_tokens="each patch"),
    "vit": ModelType(vision=RowByRow((CLS,))),
    "vit_msn": ModelType(vision=RowByRow((CLS,))),
    "whisper": ModelType(frames_per_token=2),
    "xlnet": ModelType(not_autoregressive=True),
}


def type_of(config: "PreTrainedConfig") -> ModelType:
    """The facts noted on the type of a configuration; the defaults for any other type."""
    name = str(config.model_type)
    return TYPES.get(name, ModelType())
