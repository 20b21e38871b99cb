"""Tiny models that read an image in tiles, rows or crops, in folders with the processor of their family."""

from pathlib import Path

import torch
import transformers
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.read.processor import NoVideo, without_videos
from tests.media import SPECIAL, TEXT, TOWER, WORDS, saved, tokenizer

IMAGE = SPECIAL.index("<image>")
_ROWS = [f"<row_{row + 1}_col_{column + 1}>" for row in range(6) for column in range(6)]
_MARKS = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *_ROWS, "<start>", "<end>", "[BREAK]",
          "[END]", "<boi>", "\n\n"]  # fmt: skip
_TOWER = TOWER | {"vision_use_head": False}
_TEXT = TEXT | {"vocab_size": 128, "max_position_embeddings": 512}


def _words(**more: object) -> transformers.PreTrainedTokenizerFast:
    """The words of `tokenizer`, and the marks that processors put around tiles."""
    made = tokenizer(**more)
    made.add_special_tokens({"additional_special_tokens": [*SPECIAL, *_MARKS]})
    return made


def _id(mark: str) -> int:
    return len(SPECIAL) + len(WORDS) + _MARKS.index(mark)


def _llama(**more: object) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(**(_TEXT | more))


def llava_onevision(folder: Path, most: int = 9) -> Path:
    """A LLaVA-OneVision that sees an image whole and in up to 6 tiles, and shrinks what is more than `most`."""
    torch.manual_seed(0)
    pinpoints = [[32, 64], [64, 32], [64, 64], [64, 96], [96, 64]]
    config = transformers.LlavaOnevisionConfig(
        vision_config=transformers.SiglipVisionConfig(**_TOWER),
        text_config=_llama(),
        image_token_id=IMAGE,
        video_token_id=SPECIAL.index("<|video_pad|>"),
        image_grid_pinpoints=pinpoints,
        vision_aspect_ratio=f"anyres_max_{most}",
    )
    image = transformers.LlavaOnevisionImageProcessorPil(
        size={"height": 32, "width": 32}, image_grid_pinpoints=pinpoints
    )
    with without_videos():
        processor = transformers.LlavaOnevisionProcessor(
            image, _words(), NoVideo(), num_image_tokens=16, vision_feature_select_strategy="full",
            vision_aspect_ratio=f"anyres_max_{most}",
        )  # fmt: skip
        return saved(transformers.LlavaOnevisionForConditionalGeneration(config), folder, processor)


def llava_onevision_shrunk(folder: Path) -> Path:
    """One that makes any image of several tiles coarser."""
    return llava_onevision(folder, most=1)


def internvl(folder: Path) -> Path:
    """An InternVL that sees an image in up to 6 tiles, and then whole."""
    torch.manual_seed(0)
    config = transformers.InternVLConfig(
        vision_config=transformers.InternVLVisionConfig(
            **{name: value for name, value in TOWER.items() if name not in ("image_size", "patch_size")},
            image_size=[32, 32], patch_size=[8, 8],
        ),
        text_config=_llama(), image_token_id=IMAGE, image_seq_length=4, downsample_ratio=0.5,
    )  # fmt: skip
    image = transformers.GotOcr2ImageProcessorPil(
        size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=6
    )
    marks = {"start_image_token": "<start>", "end_image_token": "<end>", "context_image_token": "<image>",
             "video_token": "<|video_pad|>"}  # fmt: skip
    with without_videos():
        processor = transformers.InternVLProcessor(
            image, _words(extra_special_tokens=marks), NoVideo(), image_seq_length=4
        )
        return saved(transformers.InternVLForConditionalGeneration(config), folder, processor)


def _idefics3(family: str, folder: Path, *parts: object) -> Path:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vision_config=TOWER, text_config=_llama(pad_token_id=2), image_token_id=IMAGE, scale_factor=2, pad_token_id=2
    )
    image = getattr(transformers, f"{family}ImageProcessorPil")(
        size={"longest_edge": 96}, max_image_size={"longest_edge": 32}
    )
    with without_videos():
        processor = getattr(transformers, f"{family}Processor")(image, _words(), *parts, image_seq_len=4)
        return saved(getattr(transformers, f"{family}ForConditionalGeneration")(config), folder, processor)


def idefics3(folder: Path) -> Path:
    """An Idefics 3 that sees an image in rows of tiles, then whole."""
    return _idefics3("Idefics3", folder)


def smolvlm(folder: Path) -> Path:
    """A SmolVLM, which sees an image as Idefics 3 does."""
    return _idefics3("SmolVLM", folder, NoVideo())


def idefics2(folder: Path) -> Path:
    """An Idefics 2 that sees an image in four quarters, then whole, and reads each as 4 mixtures of all its patches."""
    torch.manual_seed(0)
    config = transformers.Idefics2Config(
        vision_config=TOWER | {"image_size": 64},
        perceiver_config={"hidden_size": 32, "resampler_n_latents": 4, "resampler_depth": 1, "resampler_n_heads": 4,
                          "resampler_head_dim": 8, "num_key_value_heads": 4},
        text_config=transformers.MistralConfig(**_TEXT, num_key_value_heads=4, pad_token_id=2),
        image_token_id=IMAGE,
    )  # fmt: skip
    image = transformers.Idefics2ImageProcessorPil(
        size={"longest_edge": 64, "shortest_edge": 32}, do_image_splitting=True
    )
    processor = transformers.Idefics2Processor(image, _words(), image_seq_len=4)
    return saved(transformers.Idefics2ForConditionalGeneration(config), folder, processor)


def mistral3(folder: Path) -> Path:
    """A Mistral 3, whose Pixtral sees an image of any shape, and whose text has a mark behind each row."""
    torch.manual_seed(0)
    config = transformers.Mistral3Config(
        vision_config=transformers.PixtralVisionConfig(**(TOWER | {"image_size": 96, "head_dim": 8})),
        text_config=transformers.MistralConfig(**_TEXT, num_key_value_heads=4),
        image_token_id=IMAGE,
        spatial_merge_size=2,
    )
    return saved(transformers.Mistral3ForConditionalGeneration(config), folder, _pixtral(merge=2))


def llava_pixtral(folder: Path) -> Path:
    """A LLaVA whose tower is a Pixtral: Pixtral 12B as transformers has it."""
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        vision_config=transformers.PixtralVisionConfig(**(TOWER | {"image_size": 96, "head_dim": 8})),
        text_config=transformers.MistralConfig(**_TEXT, num_key_value_heads=4),
        image_token_id=IMAGE, vision_feature_layer=-1, vision_feature_select_strategy="full",
    )  # fmt: skip
    return saved(transformers.LlavaForConditionalGeneration(config), folder, _pixtral(merge=1))


def _pixtral(merge: int) -> transformers.PixtralProcessor:
    image = transformers.PixtralImageProcessorPil(size={"longest_edge": 96}, patch_size={"height": 8, "width": 8})
    return transformers.PixtralProcessor(
        image, _words(), patch_size=8, spatial_merge_size=merge, image_token="<image>", image_break_token="[BREAK]",
        image_end_token="[END]",
    )  # fmt: skip


def gemma3(folder: Path) -> Path:
    """A Gemma 3 that sees an image whole, then in crops along its longer side."""
    torch.manual_seed(0)
    config = transformers.Gemma3Config(
        vision_config=transformers.SiglipVisionConfig(**_TOWER),
        text_config=transformers.Gemma3TextConfig(**_TEXT, num_key_value_heads=4, head_dim=8),
        image_token_id=IMAGE, mm_tokens_per_image=4, boi_token_index=_id("<boi>"), eoi_token_index=_id("<end>"),
    )  # fmt: skip
    image = transformers.Gemma3ImageProcessorPil(
        size={"height": 32, "width": 32}, do_pan_and_scan=True, pan_and_scan_min_crop_size=16,
        pan_and_scan_max_num_crops=4, pan_and_scan_min_ratio_to_activate=1.2,
    )  # fmt: skip
    marks = {"boi_token": "<boi>", "eoi_token": "<end>", "image_token": "<image>"}
    processor = transformers.Gemma3Processor(image, _words(extra_special_tokens=marks), image_seq_length=4)
    model = transformers.Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)  # fresh ones are 0
    return saved(model, folder, processor)


_ALL = (llava_onevision, llava_onevision_shrunk, internvl, idefics2, idefics3, smolvlm, mistral3, llava_pixtral, gemma3)
TILED_KINDS = {kind.__name__: kind for kind in _ALL}


def unmixed(model: PreTrainedModel) -> PreTrainedModel:
    """The model with a tower whose tokens stay what their own patches make them."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if ("vision" in name or "visual" in name) and any(
                part in name for part in ("out_proj", "attn.proj", "o_proj", "projection_layer")
            ):
                weights.zero_()
    return model
