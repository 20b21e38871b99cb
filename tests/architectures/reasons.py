"""Types whose row of the table needs a reason: other weights than eager returns, or no tiny model to compare."""

_SINK = (
    "has a sink: attn shows the weights that the values got, eager returns the softmax without its sink; scaled to "
    "row sums of 1 they are equal (tested)"
)
_ADDED = (
    "eager adds the booleans of a mask, as 0 and 1, to the scores of the text tower; attn masks by them as SDPA does, "
    "and outputs are those under SDPA (tested)"
)
# Types of which `attn` shows other weights or outputs than eager returns.
OTHER_THAN_EAGER = {
    "grounding-dino": _ADDED,
    "mm-grounding-dino": _ADDED,
    "granite_swa": _SINK,
    "granitemoe_swa": _SINK,
    "wavlm": "returns the mean over heads in place of every head; the mean of what is shown is equal (tested)",
    "t5gemma2": "one softmax over the tokens of decoder and encoder, shown whole; eager returns its halves (tested)",
    "groupvit": "returns which group a patch belongs to, a softmax over groups for every patch, turned about",
    "oneformer": "returns some weights as a mean over heads; attn shows each head",
    "rf_detr": "box sizes are exponentials here: a change of 1e-6 in the image changes the output by more than 1",
}

_BLOCKS = (
    "left: rows of padding attend to nothing, which attn and SDPA make zeros and eager even rows, and later layers "
    "choose blocks by them"
)
# Types whose weights move with padding or a cache.
MOVED_IN_BATCHES = {"minimax_m3_vl": _BLOCKS, "minimax_m3_vl_text": _BLOCKS}

_SESSION = "reads a session over a video that its processor opens, not arrays"
_DRAFTS = "drafts for another model, whose keys and values it reads"
_LARGE = "its tower of 300 million parameters comes in no smaller size"
# Types of which no tiny model is made.
NOT_BUILT = {
    "bark": "has no forward pass: three models, each called in its turn",
    "depth_pro": "an image in pyramids of patches, each with sizes that must fit the others",
    "diffusion_gemma": "its encoder and its decoder share sizes in a way not found",
    "dinat": "needs natten, of which current versions lack the functions that it calls",
    "edgetam": "sizes of its prompts that fit its tower were not found",
    "edgetam_video": _SESSION,
    "fast_vlm": "needs timm; its tower does not say how wide it is",
    "gemma3n": f"needs timm; {_LARGE}",
    "gemma3n_vision": f"needs timm; {_LARGE}",
    "gemma4_assistant": _DRAFTS,
    "gemma4_unified_assistant": _DRAFTS,
    "glm_image_vqmodel": "has no forward pass",
    "granite4_vision": "its map of layers to places in the text was not made small",
    "higgs_audio_v2_tokenizer": "needs torchaudio; a wave of a length that fits its two halves was not found",
    "layoutlmv2": "needs detectron2, which is not to be had from the package index",
    "lw_detr": "levels of its pyramid that fit a small tower were not found",
    "neucodec": "features of a width that fits its two halves were not found",
    "omdet-turbo": "needs timm, and classes and tasks beside an image",
    "pe_audio_video_encoder": "needs timm, and a sound and a video of one length",
    "pp_ocrv5_mobile_rec": "a picture that its convolutions leave anything of was not found",
    "pp_ocrv6_medium_det": "convolutions alone, on a backbone that has to be named",
    "pp_ocrv6_small_det": "convolutions alone, on a backbone that has to be named",
    "sam2_video": _SESSION,
    "sam3_tracker_video": _SESSION,
    "sam3_video": _SESSION,
    "uvdoc": "convolutions alone, with sizes that hang together",
    "voxtral_realtime_text": "transformers lists it and exports no class of that name",
    "xcodec2": "features of a width that fits its two halves were not found",
    "xlstm": "no attention; a recurrence with sizes that hang together",
}

_CONVERTED = "transformers itself doesn't read back what it wrote of the tiny model"
# Types whose tiny model is not in its files as it was.
NOT_SAVED = {
    "gradium_phonon_tts": _CONVERTED,
    "nemo_speechlm": _CONVERTED,
    "shieldgemma2": _CONVERTED,
    "chinese_clip": "the row of the padding token is zero after loading",
    "marian": "its positions are computed, not loaded",
}
