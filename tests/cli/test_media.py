"""--image and --audio: files through the model's own processor, labelled by patch and time; queries."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor

from attn_cli.sources.huggingface.read.media import read_audio, read_image
from attn_cli.sources.huggingface.read.processor import without_videos
from tests.architectures.tiny import tiny_model
from tests.media import RATE, audio_file, image_file, saved, tokenizer
from tests.program import attn, refused, strict_json
from tests.sources.huggingface.folders import hard_link

Seeing = Callable[[str], Path]
EXACT = 1e-5  # float32, the same products summed in another order


@pytest.fixture
def cat(tmp_path: Path) -> Path:
    return image_file(tmp_path / "cat.png", bright=(1, 2))


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    return audio_file(tmp_path / "tone.wav")


def arrays(folder: Path, *arguments: object) -> dict[str, np.ndarray]:
    target = folder / "weights.npz"
    run = attn("matrix", *arguments, "--quiet", "--force", "-o", target)
    assert run.code == 0, run.errors
    with np.load(target) as archive:
        return dict(archive)


def stacked(attentions: Any) -> np.ndarray:
    """`[layers, heads, n, m]` of what a model returns for one example."""
    return torch.stack([weights[0] for weights in attentions]).numpy()


def eager(name: str, folder: Path) -> Any:
    return getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()


@torch.no_grad()
def test_a_vit_sees_an_image_as_it_does_anywhere(seeing: Seeing, cat: Path, tmp_path: Path) -> None:
    folder = seeing("vit")
    found = arrays(tmp_path, "-m", folder, "--image", cat)
    given = AutoImageProcessor.from_pretrained(folder)(read_image(str(cat)), return_tensors="pt")
    returned = eager("ViTModel", folder)(**given, output_attentions=True)
    np.testing.assert_allclose(found["weights"], stacked(returned.attentions), atol=EXACT)
    assert found["tokens"].tolist() == ["[CLS]", *(f"r{row},c{column}" for row in range(4) for column in range(4))]


@torch.no_grad()
def test_a_clip_sees_an_image_and_reads_a_text(seeing: Seeing, cat: Path, tmp_path: Path) -> None:
    folder = seeing("clip")
    found = arrays(tmp_path, "a photo of the cat", "-m", folder, "--image", cat)
    given = AutoProcessor.from_pretrained(folder)(
        images=read_image(str(cat)), text=["a photo of the cat"], return_tensors="pt"
    )
    model = eager("CLIPModel", folder)
    image_part = model.vision_model(given["pixel_values"], output_attentions=True)
    text_part = model.text_model(given["input_ids"], output_attentions=True)
    np.testing.assert_allclose(found["vision.weights"], stacked(image_part.attentions), atol=EXACT)
    np.testing.assert_allclose(found["text.weights"], stacked(text_part.attentions), atol=EXACT)
    assert found["text.tokens"].tolist() == ["<s>", "a", "photo", "of", "the", "cat", "</s>"]
    assert found["vision.tokens"].tolist()[:6] == ["[CLS]", "r0,c0", "r0,c1", "r0,c2", "r0,c3", "r1,c0"]


@torch.no_grad()
def test_a_llava_gets_its_image_before_the_text_or_where_the_text_says(
    seeing: Seeing, cat: Path, tmp_path: Path
) -> None:
    folder = seeing("llava")
    processor, model = AutoProcessor.from_pretrained(folder), eager("LlavaForConditionalGeneration", folder)
    patches = [f"r{row},c{column}" for row in range(4) for column in range(4)]
    for asked, read, labels in (
        ("what is here?", "<image>what is here?", ["<s>", *patches, "what", "is", "here", "?", "</s>"]),
        ("what is <image> here?", "what is <image> here?", ["<s>", "what", "is", *patches, "here", "?", "</s>"]),
    ):
        found = arrays(tmp_path, asked, "-m", folder, "--image", cat)
        given = processor(images=read_image(str(cat)), text=[read], return_tensors="pt")
        returned = model(**given, output_attentions=True)
        np.testing.assert_allclose(found["text.weights"], stacked(returned.attentions), atol=EXACT)
        assert found["text.tokens"].tolist() == labels
        shown = attn("top", asked, "-m", folder, "--image", cat, "--json").json["input"]
        assert shown["text"] == read
        for token in shown["tokens"]:  # what stands in the text is found there, patches stand for none of it
            if token["start"] is not None:
                assert read[token["start"] : token["end"]] == token["text"]
            assert (token["start"] is None) == ("row" in token or token["text"] in ("<s>", "</s>"))


@torch.no_grad()
def test_a_qwen2_vl_gets_its_image_by_its_chat_template(seeing: Seeing, tmp_path: Path) -> None:
    wide = image_file(tmp_path / "wide.png", bright=(1, 2), columns=6)
    folder = seeing("qwen2_vl")
    read = "<s>user : <|see|> <|image_pad|> what is here? </s>"
    found = arrays(tmp_path, "what is here?", "-m", folder, "--image", wide)
    with without_videos():
        processor = AutoProcessor.from_pretrained(folder)
    given = processor(images=read_image(str(wide)), text=[read], add_special_tokens=False, return_tensors="pt")
    assert given["image_grid_thw"].tolist() == [[1, 4, 6]]
    returned = eager("Qwen2VLForConditionalGeneration", folder)(**given, output_attentions=True)
    np.testing.assert_allclose(found["text.weights"], stacked(returned.attentions), atol=EXACT)
    patches = ["r0,c0", "r0,c1", "r0,c2", "r1,c0", "r1,c1", "r1,c2"]  # 4 x 6 patches, merged 2 x 2
    assert found["text.tokens"].tolist()[4:10] == patches
    run = attn("top", "what is here?", "-m", folder, "--image", wide, "--json")
    assert run.json["input"]["text"] == read
    assert "the chat template adds the image" in run.errors
    (tmp_path / "m.json").write_text('[{"role": "system", "content": "the cat sat"}]')
    run = attn("top", "what is here?", "-m", folder, "--image", wide, "--json", "--chat", "-F", tmp_path / "m.json")
    assert run.json["input"]["text"] == f"<s>system : the cat sat </s>{read}"
    assert run.json["warnings"] == ["not in the model's vocabulary, read as <unk>: system"]


@torch.no_grad()
def test_a_whisper_hears_audio_and_reads_what_its_decoder_is_given(seeing: Seeing, tone: Path, tmp_path: Path) -> None:
    folder = seeing("whisper")
    found = arrays(tmp_path, "-m", folder, "--audio", tone, "--pair", "the cat sat")
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    given = extractor(read_audio(str(tone)).samples, sampling_rate=RATE, return_tensors="pt")
    model = eager("WhisperForConditionalGeneration", folder)
    decoder = torch.tensor([[1, *processor_ids(folder, "the cat sat")]])
    returned = model(**given, decoder_input_ids=decoder, output_attentions=True)
    for stream, theirs in (
        ("encoder", returned.encoder_attentions),
        ("decoder", returned.decoder_attentions),
        ("cross", returned.cross_attentions),
    ):
        np.testing.assert_allclose(found[f"{stream}.weights"], stacked(theirs), atol=EXACT)
    assert found["cross.key_tokens"].tolist()[:3] == ["0.00s", "0.02s", "0.04s"]
    assert found["cross.key_tokens"].tolist()[-1] == "0.98s"  # of one second
    assert found["cross.tokens"].tolist() == ["<s>", "the", "cat", "sat"]


def processor_ids(folder: Path, text: str) -> list[int]:
    ids: list[int] = transformers.AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]
    return ids


@torch.no_grad()
def test_a_wav2vec2_hears_audio(seeing: Seeing, tone: Path, tmp_path: Path) -> None:
    folder = seeing("wav2vec2")
    found = arrays(tmp_path, "-m", folder, "--audio", tone)
    given = AutoFeatureExtractor.from_pretrained(folder)(
        read_audio(str(tone)).samples, sampling_rate=RATE, return_tensors="pt"
    )
    returned = eager("Wav2Vec2Model", folder)(**given, output_attentions=True)
    np.testing.assert_allclose(found["weights"], stacked(returned.attentions), atol=EXACT)
    assert found["tokens"].tolist()[:3] == ["0.00s", "0.02s", "0.04s"]  # 20 x 4 x 4 samples at 16,000 a second
    assert len(found["tokens"]) == 25
    assert attn("top", "-m", folder, "--audio", tone, "-o", tmp_path / "heard.attn").code == 0
    live, recorded = (
        attn("top", "-m", folder, "--audio", tone, "--json"),
        attn("top", "-m", tmp_path / "heard.attn", "--json"),
    )
    assert recorded.json["input"] == live.json["input"]
    assert recorded.json["warnings"] == live.json["warnings"]
    assert "attn matrix -m" in attn("top", "-m", tmp_path / "heard.attn", terminal=True).text


@torch.no_grad()
def test_frames_of_audio_have_their_seconds_or_a_note(tone: Path, tmp_path: Path) -> None:
    config = transformers.MoonshineConfig(vocab_size=64, hidden_size=32, intermediate_size=48,
                                          encoder_num_hidden_layers=1, decoder_num_hidden_layers=1,
                                          encoder_num_attention_heads=2, decoder_num_attention_heads=2)  # fmt: skip
    moonshine = transformers.MoonshineForConditionalGeneration(config)
    folder = saved(moonshine, tmp_path / "moonshine", transformers.Wav2Vec2FeatureExtractor(), tokenizer())
    found = arrays(folder, "-m", folder, "--audio", tone)
    count = moonshine.model.encoder(torch.zeros(1, RATE // 2)).last_hidden_state.shape[1]
    seconds = [f"{at * 64 * 3 * 2 / RATE:.3f}s" for at in range(count)]  # the strides of its convolutions
    assert found["encoder.tokens"].tolist() == seconds
    timeless = transformers.Wav2Vec2BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                               intermediate_size=48, feature_projection_input_dim=160)  # fmt: skip
    saved(transformers.Wav2Vec2BertModel(timeless), tmp_path / "bert", transformers.SeamlessM4TFeatureExtractor())
    assert attn("top", "-m", tmp_path / "bert", "--audio", tone, "-k", "1", "--json").json["warnings"] == []


@torch.no_grad()
def test_a_siglip_reads_its_text_filled_up_as_it_was_trained(seeing: Seeing, cat: Path, tmp_path: Path) -> None:
    folder = seeing("siglip")
    found = arrays(tmp_path, "a photo of the cat", "-m", folder, "--image", cat)
    given = AutoProcessor.from_pretrained(folder)(
        images=read_image(str(cat)), text=["a photo of the cat"], padding="max_length", max_length=16,
        return_tensors="pt",
    )  # fmt: skip
    text_part = eager("SiglipModel", folder).text_model(given["input_ids"], output_attentions=True)
    np.testing.assert_allclose(found["text.weights"], stacked(text_part.attentions), atol=EXACT)
    assert found["text.tokens"].tolist() == ["<s>", "a", "photo", "of", "the", "cat", *["</s>"] * 10]
    assert found["vision.patches"].tolist() == [[row, column] for row in range(4) for column in range(4)]


@torch.no_grad()
def test_an_image_in_tiles_keeps_the_tokens_of_the_text(seeing: Seeing, tmp_path: Path) -> None:
    wide, folder = image_file(tmp_path / "wide.png", bright=(1, 5), columns=12), seeing("llava_next")
    asked = ("what is here?", "-m", folder, "--image", wide)
    found = arrays(tmp_path, *asked)
    given = AutoProcessor.from_pretrained(folder)(
        images=read_image(str(wide)), text=["<image>what is here?"], return_tensors="pt"
    )
    assert given["pixel_values"].shape[:2] == (1, 3)
    model = eager("LlavaNextForConditionalGeneration", folder)
    returned = model(**given, output_attentions=True)
    np.testing.assert_allclose(found["text.weights"], stacked(returned.attentions), atol=EXACT)
    assert set(found["text.tokens"][1:35].tolist()) == {"<image>"}


def test_tokens_are_picked_in_each_stream_for_itself(seeing: Seeing, cat: Path, tone: Path) -> None:
    def streams(*arguments: object) -> list[str]:
        run = attn("top", *arguments, "-l", "-1", "--mean", "--json")
        assert run.code == 0, run.errors
        return [layer["stream"] for layer in run.json["tables"]["layers"]]

    asked = ("the cat", "-m", seeing("clip"), "--image", cat, "--token")
    assert streams(*asked, "[CLS]") == ["vision"]
    assert streams(*asked, "r1,c2") == ["vision"]
    assert streams(*asked, "cat") == ["text"]
    assert streams(*asked, "0") == ["vision", "text"]
    assert streams(*asked, "12") == ["vision"]
    heard = ("-m", seeing("whisper"), "--audio", tone, "--pair", "the cat", "--token")
    assert streams(*heard, "cat") == ["decoder", "cross"]
    assert streams(*heard, "0.10s") == ["encoder"]
    refused(attn("top", *asked, "r9,c9"), 2, "no token 'r9,c9'")
    refused(attn("top", *asked, "99"), 2, "there is no token 99")


def test_json_names_files_streams_rows_and_columns_by_its_schema(seeing: Seeing, cat: Path, tone: Path) -> None:
    for command in ("inspect", "matrix", "top", "heads"):
        check = jsonschema.Draft202012Validator(strict_json(attn("schema", command).bytes))
        shown = attn(command, "the cat", "-m", seeing("clip"), "--image", cat, "--json").json
        check.validate(shown)
        assert shown["input"]["image"] == str(cat)
        seen = shown["input"]["streams"]["vision"]
        assert (seen[7]["text"], seen[7]["row"], seen[7]["column"]) == ("r1,c2", 1, 2)
        assert seen[0]["special"] and "row" not in seen[0]
        seen[7]["row"] = "1"
        assert not check.is_valid(shown)
    run = attn("heads", "-m", seeing("whisper"), "--audio", tone, "--json")
    heard = run.json["input"]
    assert heard["audio"] == str(tone)
    assert [token["text"] for token in heard["streams"]["decoder"]] == ["<s>"]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_audio_of_any_width_is_the_same(width: int, channels: int, tmp_path: Path) -> None:
    file = audio_file(tmp_path / "tone.wav", width=width, channels=channels)
    times = np.arange(RATE // 2) / RATE
    tone = np.sin(2 * np.pi * 440 * times) * times / 0.5 * 0.9
    found = read_audio(str(file))
    assert found.samples.dtype == np.float32
    np.testing.assert_allclose(
        found.samples, tone, atol=1.5 * 2.0 ** (1 - 8 * min(width, 3))
    )  # half a step, and float32


def test_audio_of_another_rate_is_resampled(tmp_path: Path) -> None:
    high = read_audio(str(audio_file(tmp_path / "high.wav", rate=44_100))).at(RATE)
    low = read_audio(str(audio_file(tmp_path / "low.wav", rate=RATE)))
    assert high.rate == RATE
    assert len(high.samples) == len(low.samples)
    np.testing.assert_allclose(high.samples[200:-200], low.samples[200:-200], atol=1e-3)


def missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "attn_cli.sources.huggingface.read.media.find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )


def test_without_pillow_there_are_no_images(seeing: Seeing, cat: Path, monkeypatch) -> None:
    missing(monkeypatch, "PIL")
    refused(attn("heads", "-m", seeing("vit"), "--image", cat), 3, "pillow", "pip install 'attn-cli[image]'")


def test_models_and_media_that_do_not_go_together(seeing: Seeing, cat: Path, tone: Path, tmp_path: Path) -> None:
    vit, clip, whisper = seeing("vit"), seeing("clip"), seeing("whisper")
    refused(attn("heads", "the cat", "--image", cat), 2, "--image")  # of a table
    refused(attn("heads", "-m", vit, "--audio", tone), 2, "--audio")
    refused(attn("heads", "the cat", "-m", vit), 2, "--image FILE")
    refused(attn("heads", "<image> or <image>", "-m", seeing("llava"), "--image", cat), 2, "<image>")
    refused(attn("heads", "-m", whisper, "--audio", tone, "--audio", tone), 2, "2 times")
    refused(attn("heads", "the cat", "-m", vit, "--image", cat), 2, "no text")
    refused(attn("heads", "-m", clip, "--image", cat), 2, "reads a text")
    refused(attn("heads", "the cat", "-m", whisper), 2, "--audio FILE")
    refused(attn("heads", "-m", clip, "--image", cat, "-F", "x.npz"), 2, "at once")
    refused(attn("heads", "a " * 200, "-m", clip, "--image", cat), 4, "128")
    (bare := tmp_path / "bare").mkdir()
    for file in vit.iterdir():
        if file.name != "preprocessor_config.json":
            hard_link(file, bare / file.name)
    refused(attn("heads", "-m", bare, "--image", cat), 3, "preprocessor_config.json")
    (bare / "preprocessor_config.json").write_text("{}{")
    refused(attn("heads", "-m", bare, "--image", cat), 3, "bare")


def test_images_are_turned_and_coloured_as_they_say(tmp_path: Path) -> None:
    turned = Image.new("L", (6, 4), 90)
    tags = Image.Exif()
    tags[0x0112] = 6  # taken with the camera on its side
    turned.save(tmp_path / "turned.jpg", exif=tags)
    found = read_image(str(tmp_path / "turned.jpg"))
    assert (found.size, found.mode) == ((4, 6), "RGB")


@pytest.fixture
def detr(tmp_path: Path) -> Path:
    model = tiny_model("detr", "tiny")
    model.save_pretrained(tmp_path / "detr")
    processor = transformers.DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 128})
    processor.save_pretrained(tmp_path / "detr")
    return tmp_path / "detr"


@torch.no_grad()
def test_a_detr_sees_an_image_as_it_does_anywhere(detr: Path, tmp_path: Path) -> None:
    cat = image_file(tmp_path / "cat.png", bright=(1, 2), columns=8)  # 32 x 64 pixels, read as 64 x 128
    run = attn("matrix", "-m", detr, "--image", cat, "-o", tmp_path / "x.npz")
    assert run.code == 0 and "patches of the picture have no map (detr)" in run.errors
    found = dict(np.load(tmp_path / "x.npz"))
    given = transformers.AutoImageProcessor.from_pretrained(detr)(read_image(str(cat)), return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(detr, attn_implementation="eager").eval()
    returned = model(**given, output_attentions=True)
    for stream in ("encoder", "decoder", "cross"):
        own = returned[f"{stream}_attentions"]
        np.testing.assert_allclose(found[f"{stream}.weights"], torch.cat(own).numpy(), atol=1e-5)
    assert found["decoder.tokens"].tolist() == [str(query) for query in range(6)]
    refused(attn("matrix", "-m", detr, "--image", cat, "--pair", "a"), 2, "--pair and --image")


def test_a_decoder_of_other_things_is_refused_or_run(tmp_path: Path) -> None:
    series = tiny_model("time_series_transformer", "tiny")
    series.save_pretrained(tmp_path / "series")
    tone = audio_file(tmp_path / "tone.wav")
    refused(attn("top", "-m", tmp_path / "series", "--audio", tone), 2, "takes no --audio", "it reads past_values")
    speech = tiny_model("speecht5", "tiny")
    speech.save_pretrained(tmp_path / "speech")
    transformers.SpeechT5FeatureExtractor().save_pretrained(tmp_path / "speech")
    run = attn("heads", "-m", tmp_path / "speech", "--audio", tone, "--json")
    assert {layer["stream"] for layer in run.json["tables"]["layers"]} == {"encoder", "decoder", "cross"}
