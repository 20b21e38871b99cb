"""Inputs of each type: seeded numbers in the shapes of its parameters, text first."""

import inspect
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

Inputs = dict[str, Any]

TOKENS = torch.tensor([[9, 21, 33, 45, 57, 69, 7, 81, 93, 101, 9, 17]])
DECODER_TOKENS = torch.tensor([[12, 24, 36, 48, 60, 72, 84, 96]])


def inputs_of(model: PreTrainedModel, name: str) -> Inputs:
    """Inputs on which the model runs; raises what the most natural ones raised if none does."""
    if name in SPECIAL:
        inputs = SPECIAL[name](model)
        with torch.no_grad():
            deepcopy(model)(**inputs)
        return inputs
    first: Exception | None = None
    for inputs in _plausible(model):
        try:
            with torch.no_grad():
                model(**inputs)
            return inputs
        except Exception as error:  # models raise anything
            first = first or error
    raise first or ValueError(f"nothing known that {name} reads")


def entry(config: PreTrainedConfig, name: str) -> Any:
    if (value := getattr(config, name, None)) is not None:
        return value
    parts = (getattr(config, part, None) for part in getattr(type(config), "sub_configs", {}))
    values = (entry(part, name) for part in parts if isinstance(part, PreTrainedConfig))
    return next((value for value in values if value is not None), None)


def _plausible(model: PreTrainedModel) -> Iterator[Inputs]:
    """Inputs to try, the most natural first: what the model calls its main input, then mixtures."""
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    text = _accepted(parameters, {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)})
    decoder: Inputs = {}
    if model.config.is_encoder_decoder:
        decoder = _accepted(parameters, {"decoder_input_ids": DECODER_TOKENS})
    images, audio = list(_images(model, parameters)), list(_audio(model, parameters))
    if "input_ids" in parameters and images:
        yield from _with_placeholders(model, parameters)
    if main == "input_ids":
        yield text | decoder
    if str(main).startswith("pixel") or "grid_thw" in parameters:
        yield from (image | decoder for image in images)
    if str(main).startswith("input_"):
        yield from (audio_inputs | decoder for audio_inputs in audio)
    if "input_ids" in parameters:
        boxes = {"bbox": torch.tensor([[i, i, i + 10, i + 5] for i in range(TOKENS.shape[1])])[None]}
        yield text | decoder
        yield from (text | other | decoder for other in [*images, *audio, boxes])
        yield from (text | boxes | image | decoder for image in images[:1])
    yield from images
    yield from audio
    width = entry(model.config, "hidden_size") or 32
    for name in parameters:
        yield {name: _noise(1, 12, width)}


def _with_placeholders(model: PreTrainedModel, parameters: Any) -> Iterator[Inputs]:
    """Image and text for models that mark the image's places in the text; they complain of how many they need."""
    token = next((x for name in ("image_token_id", "image_token_index") if (x := entry(model.config, name))), None)
    if token is None:
        return
    for image in _images(model, parameters):
        count, tried = 1, set[int]()
        while count not in tried and 0 < count <= 400:
            tried.add(count)
            ids = torch.cat([TOKENS[:, :3], torch.full((1, count), token), TOKENS[:, 3:9]], dim=1)
            marks = {name: (ids == token).long() for name in ("mm_token_type_ids", "token_type_ids")}
            inputs = _accepted(parameters, {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | marks) | image
            try:
                with torch.no_grad():
                    model(**inputs)
            except Exception as error:  # models raise anything
                complaint = re.search(r"tokens: *(\d+)\D+features:? *(\d+)", str(error))
                if complaint:
                    have, want = int(complaint[1]), int(complaint[2])
                    count = want if have == count else want * count // max(have, 1)
                    count = count // 32 if count > 400 and count % 32 == 0 else count
                continue
            yield inputs
            return


def _images(model: PreTrainedModel, parameters: Any) -> Iterator[Inputs]:
    config = model.config
    size = entry(config, "image_size") or 32
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = entry(config, "num_channels") or entry(config, "in_channels") or 3
    channels = channels if isinstance(channels, int) else 3
    patch = entry(config, "patch_size") or 8
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    frames = entry(config, "num_frames") or entry(config, "frames_per_clip") or 2
    grid = next((name for name in ("grid_thw", "image_grid_thw") if name in parameters), None)
    if grid:
        times = entry(config, "temporal_patch_size") or entry(config, "patch_temporal") or 1
        pixels = "pixel_values" if "pixel_values" in parameters else next(iter(parameters))
        extra = _accepted(parameters, {"merge_sizes": torch.tensor([1])})
        for shape in ((16, channels * times * patch**2), (16, channels, patch, patch), (16, channels * patch**2),
                      (16, channels * 2 * patch**2)):  # fmt: skip
            yield {pixels: _noise(*shape), grid: torch.tensor([[1, 4, 4]])} | extra
    pixels = next((name for name in ("pixel_values", "pixel_values_videos") if name in parameters), "")
    if not pixels:
        return
    if "spatial_shapes" in parameters:
        yield {pixels: _noise(1, 16, channels * patch**2), "spatial_shapes": torch.tensor([[4, 4]]),
               "pixel_attention_mask": torch.ones(1, 16, dtype=torch.long)}  # fmt: skip
    is_masking = _is_required(parameters, "bool_masked_pos")
    extra = {"bool_masked_pos": torch.zeros(1, 16, dtype=torch.bool)} if is_masking else {}
    image = (channels, height, width)
    for shape in ((1, *image), (1, 1, *image), (1, frames, *image), (1, channels, frames, height, width),
                  (1, 2, *image), (1, 3, *image)):  # fmt: skip
        if "image_sizes" in parameters:
            yield {pixels: _noise(*shape), "image_sizes": torch.tensor([[height, width]])} | extra
        yield {pixels: _noise(*shape)} | extra


def _audio(model: PreTrainedModel, parameters: Any) -> Iterator[Inputs]:
    config = model.config
    length = 2 * (entry(config, "max_source_positions") or 32)
    names = ("num_mel_bins", "n_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim",
             "input_feat_size")  # fmt: skip
    bins = [x for name in names if isinstance(x := entry(config, name), int)]
    features = next((name for name in ("input_features", "audio_mel", "audio_features") if name in parameters), None)
    for count in dict.fromkeys([*bins, 80, 128, 160]) if features else ():
        for shape in ((1, count, length), (1, length, count)):
            masks = {
                name: torch.zeros(1, length, dtype=torch.bool)
                if name == "audio_mel_mask"
                else torch.ones(1, length).bool()
                for name in ("input_features_mask", "audio_mel_mask", "padding_mask")
                if name in parameters
            }
            yield {features: _noise(*shape)} | masks
            if _is_required(parameters, "attention_mask"):
                yield {features: _noise(*shape), "attention_mask": torch.ones(1, length).bool()}
    if "input_values" in parameters:
        count = entry(config, "num_mel_bins") or 80
        for shape in (
            (1, 4000),
            (1, 1, 4096),
            (1, 4096),
            (1, entry(config, "max_length") or 64, count),
            (1, 64, count),
        ):
            yield {"input_values": _noise(*shape)}


def _accepted(parameters: Any, inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if name in parameters}


def _is_required(parameters: Any, name: str) -> bool:
    return name in parameters and parameters[name].default is inspect.Parameter.empty


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1234))


def _text(**more: Any) -> Inputs:
    return {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)} | more


def _long(model: PreTrainedModel) -> Inputs:
    ids = TOKENS.repeat(1, 4)[:, :40]
    decoder = {"decoder_input_ids": DECODER_TOKENS} if model.config.is_encoder_decoder else {}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | decoder


def _series(model: PreTrainedModel) -> Inputs:
    config = model.config
    past = config.context_length + max(config.lags_sequence)
    return {
        "past_values": _noise(1, past),
        "past_time_features": _noise(1, past, config.num_time_features),
        "past_observed_mask": torch.ones(1, past),
        "future_values": _noise(1, config.prediction_length),
        "future_time_features": _noise(1, config.prediction_length, config.num_time_features),
    }


def _decisions(model: PreTrainedModel) -> Inputs:
    config = model.config
    return {
        "states": _noise(1, 4, config.state_dim), "actions": _noise(1, 4, config.act_dim), "rewards": _noise(1, 4, 1),
        "returns_to_go": _noise(1, 4, 1), "timesteps": torch.arange(4)[None], "attention_mask": torch.ones(1, 4),
    }  # fmt: skip


def _queries(model: PreTrainedModel) -> Inputs:
    config = model.config
    x = _text()["input_ids"]
    video = config.model_type == "instructblipvideo"
    token = config.video_token_index if video else config.image_token_index
    ids = torch.cat([torch.full((1, config.num_query_tokens * (1 + video)), token), x], dim=1)
    size = config.vision_config.image_size
    pixels = _noise(1, 2, 3, size, size) if video else _noise(1, 3, size, size)
    extra = {} if config.model_type == "blip-2" else {"qformer_input_ids": x}
    return {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)} | extra


def _kosmos(model: PreTrainedModel) -> Inputs:
    count, size = model.config.latent_query_num, model.config.vision_config.image_size
    ids = torch.cat([TOKENS[:, :2], torch.full((1, count), 7), TOKENS[:, 2:]], dim=1)
    places = torch.zeros_like(ids)
    places[:, 2 : 2 + count] = 1
    return {"pixel_values": _noise(1, 3, size, size), "input_ids": ids, "attention_mask": torch.ones_like(ids),
            "image_embeds_position_mask": places}  # fmt: skip


def _prompted(model: PreTrainedModel) -> Inputs:
    size = model.config.image_size
    height, width = size if isinstance(size, list | tuple) else (size, size)
    half = (1, 3, height // 2, width)
    return {"pixel_values": _noise(*half), "prompt_pixel_values": _noise(*half), "prompt_masks": _noise(*half)}


def _patches(model: PreTrainedModel) -> Inputs:
    places = torch.stack(torch.meshgrid(torch.arange(6), torch.arange(6), indexing="xy"), -1).reshape(1, 36, 2)
    return {"pixel_values": _noise(1, 36, 3 * model.config.patch_size**2).sigmoid(), "pixel_position_ids": places}


def _glimmer(model: PreTrainedModel) -> Inputs:
    width = model.config.hidden_size
    return {"noise_embeds": _noise(1, 4, width), "attention_mask": torch.ones(1, 12, dtype=torch.long),
            "context_hidden_states": _noise(1, 8, width * len(model.config.target_layer_ids))}  # fmt: skip


def _wave_and_features(model: PreTrainedModel) -> Inputs:
    """Audio by its wave and by its features, for codecs that read both."""
    return {"input_values": _noise(1, 1, 3200), "input_features": _noise(1, 10, 160)}


SPECIAL: dict[str, Callable[[Any], Inputs]] = {
    "big_bird@sparse": _long,
    "bigbird_pegasus@sparse": _long,
    "blt": lambda model: _text(use_cache=False),
    "bros": lambda model: _text(bbox=_noise(1, 12, 8).sigmoid()),
    "blip_2_qformer": lambda model: {
        "query_embeds": _noise(1, 8, model.config.hidden_size),
        "encoder_hidden_states": _noise(1, 10, model.config.encoder_hidden_size),
    },
    "dia": lambda model: _text(
        decoder_input_ids=TOKENS[:, :6, None].repeat(1, 1, model.config.decoder_config.num_channels)
    ),
    "muse_glimmer_assistant": _glimmer,
    "decision_transformer": _decisions,
    "gemma4_vision": _patches,
    "idefics": lambda model: _text(
        pixel_values=_noise(1, 1, 3, *[model.config.vision_config.image_size] * 2),
        image_attention_mask=torch.ones(1, 12, 1, dtype=torch.long),
    ),
    "kosmos-2": _kosmos,
    "lxmert": lambda model: _text(
        visual_feats=_noise(1, 5, model.config.visual_feat_dim), visual_pos=_noise(1, 5, 4).sigmoid()
    ),
    "oneformer": lambda model: {
        "pixel_values": _noise(1, 3, 64, 64), "task_inputs": TOKENS.repeat(1, 9)[:, : model.config.task_seq_len],
    },
    "seggpt": _prompted,
    "clap": lambda model: _text(input_features=_noise(1, 1, 64, 64), is_longer=torch.zeros(1, 1, dtype=torch.bool)),
    "clvp": lambda model: _text(input_features=_noise(1, 80, 64)),
    "fun_asr_nano_encoder": lambda model: {
        "input_features": _noise(1, 12, 560), "input_features_mask": torch.ones(1, 12, dtype=torch.bool),
    },
    "inkling2_vision": lambda model: {
        "pixel_values": _noise(4, 2 * model.config.patch_size, 2 * model.config.patch_size, 3),
        "image_grid_thw": torch.tensor([[1, 2, 2]]),
    },
    "neucodec": _wave_and_features,
    "pe_video": lambda model: _text(pixel_values_videos=_noise(1, 2, 3, 32, 32)),
    "pe_video_encoder": lambda model: {"pixel_values_videos": _noise(1, 2, 3, 32, 32)},
    "pi0": lambda model: _text(
        state=_noise(1, 32), pixel_values=_noise(1, 1, 3, 32, 32), pixel_attention_mask=torch.ones(1, 1).bool(),
        actions=_noise(1, model.config.chunk_size, 32), noise=_noise(1, model.config.chunk_size, 32),
        timestep=torch.tensor([0.5]),
    ),
    "qwen3_asr_encoder": lambda model: {
        "input_features": _noise(1, 80, 100), "input_features_mask": torch.ones(1, 100, dtype=torch.bool),
    },
    "tvp": lambda model: _text(pixel_values=_noise(1, 2, 3, 128, 128)),
    "voxtral_realtime": lambda model: _text(input_features=_noise(1, 80, 96)),
    "xcodec": lambda model: {"input_values": _noise(1, 1, 16000)},
    "xcodec2": _wave_and_features,
    "vibevoice_acoustic_tokenizer_decoder": lambda model: {"hidden_states": _noise(1, model.config.hidden_size, 12)},
    "vibevoice_acoustic_tokenizer_encoder": lambda model: {"hidden_states": _noise(1, 1, 4096)},
    "timesfm": lambda model: {
        "past_values": _noise(1, 64), "past_values_padding": torch.zeros(1, 64),
        "freq": torch.zeros(1, 1, dtype=torch.long),
    },
    "timesfm2_5": lambda model: {"past_values": _noise(1, 64)},
}  # fmt: skip
SPECIAL |= dict.fromkeys(("autoformer", "informer", "time_series_transformer"), _series)
SPECIAL |= dict.fromkeys(
    ("patchtst", "patchtsmixer"),
    lambda model: {"past_values": _noise(1, model.config.context_length, model.config.num_input_channels)},
)
SPECIAL |= dict.fromkeys(("musicgen", "musicgen_melody"), lambda model: _text(
    decoder_input_ids=TOKENS[:, :6].repeat(model.config.decoder.num_codebooks, 1) % 30))  # fmt: skip
SPECIAL |= dict.fromkeys(
    ("granite_speech5_ctc", "granite_speech5_encoder"),
    lambda model: {"input_features": _noise(1, 24, 4 * (entry(model.config, "num_mel_bins") or 80))},
)
SPECIAL |= dict.fromkeys(
    ("grounding-dino", "mm-grounding-dino"), lambda model: _text(pixel_values=_noise(1, 3, 128, 128))
)
SPECIAL |= dict.fromkeys(
    ("mimi_decoder", "pocket_tts_audio_tokenizer_decoder"), lambda model: {"latents": _noise(1, 32, 12)}
)
SPECIAL |= dict.fromkeys(
    ("minicpm_ocr_vision", "minicpmv4_7_vision"),
    lambda model: {"pixel_values": _noise(1, 3, 32, 32), "target_sizes": torch.tensor([[4, 4]])},
)
SPECIAL |= dict.fromkeys(("blip-2", "instructblip", "instructblipvideo"), _queries)
_LINES = "pp_ocrv5_mobile_rec pp_ocrv5_server_rec pp_ocrv6_small_rec pp_ocrv6_tiny_rec"
_LARGE = """rt_detr rt_detr_v2 d_fine deimv2 deformable_detr pp_doclayout_v3 pp_doclayout_v4 mask2former depth_pro
    maskformer"""
SPECIAL |= dict.fromkeys(_LINES.split(), lambda model: {"pixel_values": _noise(1, 3, 48, 320)})
SPECIAL |= dict.fromkeys(_LARGE.split(), lambda model: {"pixel_values": _noise(1, 3, 128, 128)})
