"""Tiny models that read images and audio, in folders with the processor of their family; image and audio files."""

import wave
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from attn_cli.sources.huggingface.read.processor import NoVideo, without_videos

TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "image_size": 32, "patch_size": 8}  # fmt: skip
TEXT = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 128}  # fmt: skip
SPECIAL = ["<unk>", "<s>", "</s>", "<image>", "<|image_pad|>", "<|video_pad|>", "<|see|>"]
WORDS = ["a", "photo", "of", "cat", "the", "sat", "what", "is", "here", "?", "user", ":"]
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }} : {% for part in m.content %}{% if part.type == 'image' %}"
    "<|see|> <|image_pad|> {% else %}{{ part.text }} {% endif %}{% endfor %}</s>{% endfor %}"
)
RATE = 16_000


def tokenizer(**more: object) -> PreTrainedTokenizerFast:
    """Whole words, between <s> and </s>."""
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate([*SPECIAL, *WORDS])}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens(SPECIAL)
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(name, SPECIAL.index(name)) for name in ("<s>", "</s>")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>", **more
    )


def saved(model: PreTrainedModel, folder: Path, *parts: object, strength: float = 12) -> Path:
    """The model in a folder, with attention that is far from uniform, and the parts of its processor beside it."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if any(word in name for word in ("q_proj", "k_proj", "query", "key", "qkv")):
                weights.mul_(strength)
    model.save_pretrained(folder)
    for part in parts:
        part.save_pretrained(folder)  # type: ignore[attr-defined]
    return folder


def vit(folder: Path, kind: str = "ViT") -> Path:
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**TOWER))
    return saved(model, folder, transformers.ViTImageProcessor(size={"height": 32, "width": 32}))


def clip(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config=TEXT | {"bos_token_id": 1, "eos_token_id": 2}, vision_config=TOWER, projection_dim=16
    )
    image = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return saved(transformers.CLIPModel(config), folder, transformers.CLIPProcessor(image, tokenizer()))


def siglip(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.SiglipConfig(text_config=TEXT | {"max_position_embeddings": 16}, vision_config=TOWER)
    image = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    words = tokenizer(model_input_names=["input_ids"])  # no mask: the filling is read too
    model = transformers.SiglipModel(config)  # whose fresh weights are large enough
    return saved(model, folder, transformers.SiglipProcessor(image, words), strength=1)


def llava(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**TOWER),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_id=SPECIAL.index("<image>"),
        image_seq_length=16,
    )
    image = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = transformers.LlavaProcessor(
        image, tokenizer(), patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return saved(transformers.LlavaForConditionalGeneration(config), folder, processor)


def qwen2_vl(folder: Path) -> Path:
    torch.manual_seed(0)
    tower = {"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 4, "patch_size": 8, "mlp_ratio": 1}
    text = TEXT | {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}
    config = transformers.Qwen2VLConfig(
        vision_config=tower,
        text_config=text,
        image_token_id=SPECIAL.index("<|image_pad|>"),
        video_token_id=SPECIAL.index("<|video_pad|>"),
        vision_start_token_id=SPECIAL.index("<|see|>"),
    )
    image = transformers.Qwen2VLImageProcessor(patch_size=8, min_pixels=256, max_pixels=1536)
    with without_videos():
        processor = transformers.Qwen2VLProcessor(image, tokenizer(), NoVideo(), chat_template=TEMPLATE)
        return saved(transformers.Qwen2VLForConditionalGeneration(config), folder, processor)


def llava_next(folder: Path) -> Path:
    """A LLaVA-NeXT that sees an image whole and in two tiles."""
    torch.manual_seed(0)
    pinpoints = [[32, 64], [64, 32]]
    config = transformers.LlavaNextConfig(
        vision_config=transformers.CLIPVisionConfig(**TOWER),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_id=SPECIAL.index("<image>"),
        image_grid_pinpoints=pinpoints,
    )
    image = transformers.LlavaNextImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=pinpoints
    )
    processor = transformers.LlavaNextProcessor(
        image, tokenizer(), patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return saved(transformers.LlavaNextForConditionalGeneration(config), folder, processor)


def trocr(folder: Path) -> Path:
    """A ViT that a decoder of texts looks at."""
    torch.manual_seed(0)
    text = transformers.TrOCRConfig(
        vocab_size=64, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48,
        max_position_embeddings=64, cross_attention_hidden_size=32,
    )  # fmt: skip
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(transformers.ViTConfig(**TOWER), text)
    config.decoder_start_token_id, config.pad_token_id = 1, 2
    image = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    return saved(transformers.VisionEncoderDecoderModel(config), folder, image, tokenizer())


def vit_mae(folder: Path) -> Path:
    """A ViT that sees a quarter of its patches, drawn by lot: nobody knows which."""
    return vit(folder, "ViTMAE")


def whisper(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=50,
        max_target_positions=64, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    audio = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    return saved(transformers.WhisperForConditionalGeneration(config), folder, audio, tokenizer())


def wav2vec2(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(20, 4, 4), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return saved(transformers.Wav2Vec2Model(config), folder, transformers.Wav2Vec2FeatureExtractor())


_ALL = (vit, vit_mae, clip, siglip, llava, llava_next, qwen2_vl, trocr, whisper, wav2vec2)
KINDS = {kind.__name__: kind for kind in _ALL}


def image_file(file: Path, *, bright: tuple[int, int], rows: int = 4, columns: int = 4, side: int = 8) -> Path:
    """A grey image of `rows` x `columns` patches, the one at `bright` white."""
    pixels = np.full((rows * side, columns * side, 3), 90, np.uint8)
    row, column = bright
    pixels[row * side : (row + 1) * side, column * side : (column + 1) * side] = 255
    Image.fromarray(pixels).save(file)
    return file


def audio_file(file: Path, *, seconds: float = 0.5, rate: int = RATE, width: int = 2, channels: int = 1) -> Path:
    """A tone that grows louder."""
    times = np.arange(int(seconds * rate)) / rate
    tone = np.sin(2 * np.pi * 440 * times) * times / seconds * 0.9
    data = np.round(tone * (2 ** (8 * width - 1) - 1)).astype(f"<i{width}").repeat(channels).tobytes()
    with wave.open(str(file), "wb") as opened:
        opened.setnchannels(channels)
        opened.setsampwidth(width)
        opened.setframerate(rate)
        opened.writeframes(data)
    return file


_SIZES = {"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 16, "max_position_embeddings": 64}  # fmt: skip
_TEMPLATE = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}"


def encoder(folder: Path) -> Path:
    torch.manual_seed(0)
    BertModel(BertConfig(**_SIZES)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def chatting(folder: Path) -> Path:
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**_SIZES, num_key_value_heads=1)).save_pretrained(folder)
    tokenizer(chat_template=_TEMPLATE).save_pretrained(folder)
    return folder
