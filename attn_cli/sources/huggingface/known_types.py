"""Facts about single model types, by `model_type`, that can't be read off code, each of them measured."""

# Padding changes the weights between a text's tokens, so texts are not padded into one batch (tests/architectures).
_UNPADDED = """blt canine convbert cpmant deepseek_v4 fastspeech2_conformer fastspeech2_conformer_with_hifigan funnel
    longt5 mobilebert musicgen_melody nystromformer pegasus_x perceiver reformer sam3_lite_text_text_model t5gemma2"""
UNPADDED_ONLY = frozenset(_UNPADDED.split())
# Tokens attend to later ones unless the configuration says is_decoder; with a masked-language class it needs no entry.
BIDIRECTIONAL = frozenset({"bert-generation"})
# What it generates does not follow from a pass over what it has read and generated: XLNet predicts a place without its
# token, Moshi hears itself.
NOT_AUTOREGRESSIVE = frozenset({"moshi", "xlnet"})
# It was trained on texts padded to its whole number of positions, and reads the padding too.
PADDED_TO_FULL_LENGTH = frozenset({"siglip", "siglip2"})
# Blocks run again after the last one, so that a pass can't be ended after a chosen layer.
REPEATS_BLOCKS = frozenset({"efficientloftr", "hrm_text"})
# How many frames of a spectrogram a token of the audio encoder holds.
FRAMES_PER_TOKEN = {"whisper": 2}
# Attention classes that compute blocks or bands of keys in a layout of their own, which is no `[n, m]`.
_BLOCKWISE = """BigBirdBlockSparseAttention BigBirdPegasusBlockSparseAttention LEDEncoderSelfAttention LSHSelfAttention
    LocalSelfAttention LongformerSelfAttention LongT5LocalAttention LongT5TransientGlobalAttention"""
IN_BLOCKS = tuple(_BLOCKWISE.split())

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
