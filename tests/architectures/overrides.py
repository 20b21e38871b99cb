"""Overrides of single types beyond small sizes: parts that fit each other, options that show a mechanism."""

from collections.abc import Callable
from typing import Any

from transformers import PreTrainedConfig, ResNetConfig, SwinConfig, TimmWrapperConfig

Change = dict[str, Any]

_ROPE: Change = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
_HALF_ROPE = _ROPE | {"partial_rotary_factor": 0.5}
_MAMBA: Change = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8, "mamba_expand": 2}
_SWIN: Change = {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 2, "patch_size": 4}
_SAM: Change = {
    "vision_config": {"image_size": 64, "patch_size": 16, "window_size": 2, "num_pos_feats": 16, "output_channels": 32,
                      "mlp_dim": 64, "num_attention_heads": 4},
    "prompt_encoder_config": {"hidden_size": 32, "image_size": 64, "patch_size": 16, "image_embedding_size": 4},
    "mask_decoder_config": {"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 4, "iou_head_hidden_dim": 32},
}  # fmt: skip
_OCR: Change = {"image_size": 64, "patch_size": 16, "window_size": 2, "output_channels": 32, "mlp_dim": 64,
                "num_attention_heads": 4, "downsample_channels": (32, 32)}  # fmt: skip
_SERIES: Change = {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2], "label_length": 4,
                   "moving_average": 3}  # fmt: skip
_MIMI: Change = {"num_filters": 8, "upsample_groups": 32, "codebook_dim": 32, "num_quantizers": 4,
                 "vector_quantization_hidden_dimension": 32}  # fmt: skip
_COMPASS: Change = {
    "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10000.0}
                        for kind in ("full_attention", "sliding_attention")},
    "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip
_QWEN4: Change = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4,
                  "indexer_compress_ratio": 2, "hc_lowrank": 8, "ple_embed_dim": 32,
                  "layer_types": ["linear_attention", "indexed_attention"]}  # fmt: skip
_DOTS: Change = {"num_attention_heads": 4, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4,
                 "swa_head_dim": 16, "swa_qk_nope_head_dim": 8, "swa_v_head_dim": 6, "swa_q_lora_rank": 16,
                 "swa_kv_lora_rank": 16}  # fmt: skip
_MINIMAX3: Change = {"index_block_size": 2, "index_topk_blocks": 2, "index_local_blocks": 1, "index_n_heads": 2,
                     "layer_types": ["full_attention", "minimax_m3_sparse"]}  # fmt: skip
_HYBRID = ["linear_attention", "hybrid", "linear_attention", "hybrid"]
_TEXT_ROPE: Change = {"text_config": {"rope_parameters": _ROPE}}


_SMALL_VIT: Change = {"depth": 2, "embed_dim": 32, "num_heads": 4, "img_size": [32, 32], "patch_size": 8}


def _perceiving() -> PreTrainedConfig:
    return TimmWrapperConfig(architecture="vit_pe_core_tiny_patch16_384", model_args=_SMALL_VIT, do_pooling=True)


def _edge() -> PreTrainedConfig:
    options = {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]}
    return TimmWrapperConfig(architecture="repvit_m1", model_args=options)


def _resnet(*features: str) -> Callable[[], PreTrainedConfig]:
    return lambda: ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], out_features=list(features)
    )


def _swin() -> PreTrainedConfig:
    return SwinConfig(
        embed_dim=16, depths=[1, 1, 1, 1], num_heads=[2, 2, 4, 4], window_size=2, image_size=64,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


OVERRIDES: dict[str, Change] = {
    # Mamba and other recurrences with attention between
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "granitemoehybrid": _MAMBA | {"layer_types": ["linear_attention", "full_attention"]},
    "falcon_h1": _MAMBA | {"mamba_d_ssm": 64},
    "jamba": {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2},
    "mamba2": {"num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 1},
    "recurrent_gemma": {"num_hidden_layers": 2, "block_types": ["recurrent", "attention"], "num_key_value_heads": 1},
    "zamba": {"num_hidden_layers": 4, "attention_hidden_size": 64, "attention_head_dim": 16, "mamba_d_state": 8,
              "mamba_dt_rank": 8, "n_mamba_heads": 2, "num_key_value_heads": 4, "layers_block_type": _HYBRID},
    "zamba2": {"num_hidden_layers": 4, "attention_hidden_size": 64, "attention_head_dim": 16, "num_key_value_heads": 4,
               "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_d_state": 8, "kv_channels": 8, "num_query_groups": 4,
               "layers_block_type": _HYBRID},
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 8, "expand": 2, "n_groups": 1, "chunk_size": 8},
    # text
    "blt": {"encoder_hash_byte_group_vocab": 64, "local_attention_window_len": 64,
            "encoder_config": {"hidden_size_global": 64}, "decoder_config": {"hidden_size_global": 64},
            "global_config": {"hidden_size": 64}},
    "bros": {"dim_bbox_sinusoid_emb_2d": 32, "dim_bbox_sinusoid_emb_1d": 4, "dim_bbox_projection": 8},
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
             "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 32, "moe_top_k": 2}},
    "dots3_note_text": _DOTS,
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "hrm_text": {"num_hidden_layers": 16, "num_layers_per_stack": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "zaya": {"num_experts_per_tok": 1},
    "esmc": {"num_key_value_heads": 4},
    "esm": {"vocab_size": 128, "pad_token_id": 0, "mask_token_id": 6, "position_embedding_type": "rotary"},
    "cohere_compass_text": _COMPASS,
    "glm4v_moe_text": {"head_dim": 16, "rope_parameters": _HALF_ROPE},
    "glm5_next_text": {"index_topk": 4, "index_kpool": 2},
    "gemma3n_text": {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "intermediate_size": [64] * 4,
                     "layer_types": ["sliding_attention", "full_attention"] * 2,
                     "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0]},
    "led": {"attention_window": 4, "max_encoder_position_embeddings": 64},
    "longformer": {"attention_window": 4},
    "lilt": {"hidden_size": 48, "num_attention_heads": 4},
    "markuplm": {"tag_pad_id": 15, "subs_pad_id": 15},
    "minimax_m3_vl_text": _MINIMAX3,
    "mobilebert": {"hidden_size": 32, "embedding_size": 32, "intra_bottleneck_size": 32},
    "qwen4_exp_text": _QWEN4,
    "reformer": {"axial_pos_shape": (4, 16), "axial_pos_embds_dim": (8, 24), "attn_layers": ("local", "lsh"),
                 "num_hidden_layers": 2, "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_buckets": 4,
                 "max_position_embeddings": 64, "is_decoder": False, "hash_seed": 1},
    "t5gemma": {"encoder": {"attn_logit_softcapping": 2.0}, "decoder": {"attn_logit_softcapping": 2.0}},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "gemma2": {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 16},
    "vaultgemma": {"attn_logit_softcapping": 2.0},
    "xmod": {"default_language": "en_XX"},
    # images
    "swin": _SWIN,
    "donut-swin": _SWIN,
    "swinv2": _SWIN | {"pretrained_window_sizes": (0, 0)},
    "swin2sr": _SWIN | {"num_heads": (2, 2), "patch_size": 1, "window_size": 4},
    "levit": {"hidden_sizes": (32, 32, 32), "num_attention_heads": (2, 2, 2), "depths": (2, 2, 2), "key_dim": (8, 8, 8),
              "image_size": 64, "patch_size": 16,
              "down_ops": [["Subsample", 8, 4, 4, 2, 2], ["Subsample", 8, 4, 4, 2, 2]]},
    "sam": _SAM,
    "sam_hq": _SAM | {"mask_decoder_config": _SAM["mask_decoder_config"] | {"vit_dim": 32}},
    "seggpt": {"merge_index": 0, "intermediate_hidden_state_indices": (1,), "num_hidden_layers": 2},
    "layoutlmv3": {"input_size": 32, "coordinate_size": 6, "shape_size": 4, "has_spatial_attention_bias": True},
    "sam3_lite_text_text_model": {"num_hidden_layers": 4},
    "yolos": {"num_detection_tokens": 4},
    "deformable_detr": {"backbone_config": _resnet("stage2", "stage3", "stage4"), "use_timm_backbone": False,
                        "num_queries": 6, "num_feature_levels": 3},
    # several senses
    "bridgetower": {"vision_config": {"hidden_size": 64}, "text_config": {"hidden_size": 32}},
    "blip-2": {"image_token_index": 120},
    "instructblip": {"image_token_index": 120},
    "instructblipvideo": {"video_token_index": 121},
    "chameleon": {"vocabulary_map": {"<image>": 120}},
    "cohere_compass": {"text_config": _COMPASS},
    "csm": {"codec_config": _MIMI},
    "ernie4_5_vl_moe": {"text_config": {"rope_parameters": _ROPE | {"mrope_section": [1, 1, 2]},
                                        "moe_intermediate_size": [16, 16]}},
    "glm4v_moe": {"text_config": {"head_dim": 16, "rope_parameters": _HALF_ROPE}},
    "glm5_next": {"text_config": {"index_topk": 4, "index_kpool": 2}},
    "inkling_mm_model": {"vision_config": {"num_hidden_layers": 5}},
    "kyutai_speech_to_text": {"codec_config": _MIMI},
    "llama4": {"vision_config": {"intermediate_size": 128, "vision_output_dim": 32, "projector_input_dim": 32,
                                 "projector_output_dim": 32}},
    "mimi": _MIMI,
    "minimax_m3_vl": {"text_config": _MINIMAX3},
    "moonshine_streaming": {"num_key_value_heads": 4, "encoder_config": {"sliding_windows": [[4, 2], [4, 0]]}},
    "nemotron3_5_transcribe_word_timestamp": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16, "hidden_size": 64},
    "qwen4_exp": {"text_config": _QWEN4},
    "step3p7": {"text_config": {"sliding_window": 4}},
    "vipllava": {"vision_feature_layer": (-2, -1)},
    "tvp": {"visual_prompt_size": 4, "max_img_size": 128, "num_frames": 2},
    "unlimited_ocr": {"vision_config": {"sam_config": _OCR}, "text_config": {"num_key_value_heads": 4}},
    "deepseek_ocr2": {"vision_config": {"sam_config": _OCR | {"downsample_channels": [32, 32]}},
                      "text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "align": {"projection_dim": 640},
    "clap": {"audio_config": {"num_mel_bins": 64, "spec_size": 64, "patch_stride": [4, 4], "patch_size": 4,
                              "depths": [1, 1], "num_attention_heads": [2, 4], "patch_embeds_hidden_size": 16,
                              "window_size": 4, "hidden_size": 32}},
    "clvp": {part: {"hidden_size": 128} for part in ("text_config", "speech_config", "decoder_config")},
    "dots3_note": {"vision_config": {"adapter_in_dim": 32, "adapter_out_dim": 32}, "text_config": _DOTS,
                   "audio_config": {"adapter_input_size": 32, "adapter_out_dim": 32}},
    "emu3": {"vocabulary_map": {"<image>": 120} | {f"<|visual token {i:06}|>": 30 + i for i in range(32)}},
    "granite_speech5_ctc": {"encoder_config": {"context_size": 8}},
    "granite_speech5_encoder": {"context_size": 8},
    "lw_detr": {"backbone_config": {"num_windows": 4, "out_indices": [1, 2]}, "num_queries": 6},
    "mimi_decoder": _MIMI,
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "depth_pro": {"patch_size": 32},
    "xcodec": {"semantic_model_config": {"conv_dim": (32,) * 7, "conv_stride": (5, 2, 2, 2, 2, 2, 2),
                                         "conv_kernel": (10, 3, 3, 3, 3, 2, 2)}},
    "xlstm": {"qk_dim_factor": 1.0},
    "pocket_tts_audio_tokenizer_decoder": _MIMI,
    "edgetam": {"vision_config": {"backbone_config": _edge}},
    "edgetam_vision_model": {"backbone_config": _edge},
    "perception_lm": {"vision_config": _perceiving},
    "pe_video_encoder": {"vision_config": _perceiving},
    "pe_video": {"video_config": {"vision_config": _perceiving}},
    "timm_wrapper": {"architecture": "vit_tiny_patch16_224", "model_args": _SMALL_VIT},
    "timm_backbone": {"backbone": "resnet18"},
    # series
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
}  # fmt: skip
OVERRIDES |= {
    f"{kind}_text": {"rope_parameters": _ROPE}
    for kind in ("glm4v", "glm_image", "glm_ocr", "hunyuan_vl", "qwen2_5_vl", "qwen2_vl")
}
_SEEING = ("glm46v", "glm4v", "glm_image", "glm_ocr", "glmga", "hunyuan_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl")
OVERRIDES |= dict.fromkeys(_SEEING, _TEXT_ROPE)
OVERRIDES |= {
    f"{kind}_thinker": _TEXT_ROPE | {"vision_start_token_id": 123, "vision_end_token_id": 124}
    for kind in ("qwen2_5_omni", "qwen3_omni_moe")
}
OVERRIDES |= {
    kind: {"backbone_config": _resnet("stage4"), "use_timm_backbone": False, "num_queries": 6}
    for kind in ("detr", "conditional_detr", "dab-detr", "table-transformer")
}
OVERRIDES |= {
    kind: {"num_queries": 6, "encoder_layers": 1, "num_denoising": 0, "decoder_in_channels": [32, 32, 32]}
    for kind in ("rt_detr", "rt_detr_v2", "d_fine", "deimv2", "pp_doclayout_v3", "pp_doclayout_v4")
}
OVERRIDES |= {
    kind: {"backbone_config": _swin, "num_queries": 6, "encoder_layers": 1, "decoder_layers": 2, "d_model": 32}
    for kind in ("grounding-dino", "mm-grounding-dino")
}

# Types of which the listed class can't be built from the type's own configuration, or lacks the part that attends.
CLASSES = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
    "pp_ocrv5_mobile_rec": "PPOCRV5MobileRecForTextRecognition",
    "pp_ocrv5_server_rec": "PPOCRV5ServerRecForTextRecognition",
    "pp_ocrv6_small_rec": "PPOCRV6SmallRecForTextRecognition",
    "pp_ocrv6_tiny_rec": "PPOCRV6TinyRecForTextRecognition",
}

# Options that take another path through a type's attention code: type@variant: (type, options).
VARIANTS: dict[str, tuple[str, Change]] = {
    "falcon@alibi": ("falcon", {"alibi": True, "multi_query": False, "new_decoder_architecture": False,
                                "num_kv_heads": 4}),
    "falcon@multiquery": ("falcon", {"alibi": False, "multi_query": True, "new_decoder_architecture": False}),
    "falcon@newdecoder": ("falcon", {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "gpt2@upcast": ("gpt2", {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True}),
    "big_bird@full": ("big_bird", {"attention_type": "original_full"}),
    "big_bird@sparse": ("big_bird", {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}),
    "bigbird_pegasus@sparse": ("bigbird_pegasus", {"attention_type": "block_sparse", "block_size": 4,
                                                   "num_random_blocks": 1}),
    "nystromformer@landmarks": ("nystromformer", {"num_landmarks": 4, "segment_means_seq_len": 12}),
    "longt5@local": ("longt5", {"local_radius": 2}),
    "longt5@global": ("longt5", {"encoder_attention_type": "transient-global", "local_radius": 2,
                                 "global_block_size": 4}),
    "funnel@nopool": ("funnel", {"block_sizes": [2], "block_repeats": [1], "num_decoder_layers": 1}),
    "bert@decoder": ("bert", {"is_decoder": True}),
    "bart@decoder": ("bart", {"is_decoder": True}),
}  # fmt: skip
