"""--image and --audio: files through the model's own processor, labelled by patch and time; figures over an image."""

import base64
import io
import json
import re
import sys
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
from tests.media import KINDS, RATE, audio_file, image_file
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


PATCHES = [f"r{row},c{column}" for row in range(4) for column in range(4)]
SEEN: dict[str, tuple[str, str, dict[str, list[str]]]] = {  # class, text, and tokens by stream
    "vit": ("ViTModel", "", {"": ["[CLS]", *PATCHES]}),
    "clip": ("CLIPModel", "a photo of the cat", {
        "vision": ["[CLS]", *PATCHES], "text": ["<s>", "a", "photo", "of", "the", "cat", "</s>"]}),
    "siglip": ("SiglipModel", "a photo of the cat", {  # whose text is filled up as it was trained
        "text": ["<s>", "a", "photo", "of", "the", "cat", *["</s>"] * 10]}),
    "wav2vec2": ("Wav2Vec2Model", "", {"": [f"{at / 50:.2f}s" for at in range(25)]}),
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("kind", SEEN)
def test_a_tower_sees_and_hears_as_it_does_anywhere(
    kind: str, seeing: Seeing, cat: Path, tone: Path, tmp_path: Path
) -> None:
    name, text, tokens = SEEN[kind]
    folder, words = seeing(kind), [text] if text else []
    found = arrays(tmp_path, *words, "-m", folder, *(("--audio", tone) if kind == "wav2vec2" else ("--image", cat)))
    if kind == "wav2vec2":
        given = AutoFeatureExtractor.from_pretrained(folder)(
            read_audio(str(tone)).samples, sampling_rate=RATE, return_tensors="pt"
        )
    elif text:
        filled = {"padding": "max_length", "max_length": 16} if kind == "siglip" else {}
        given = AutoProcessor.from_pretrained(folder)(
            images=read_image(str(cat)), text=[text], return_tensors="pt", **filled
        )
    else:
        given = AutoImageProcessor.from_pretrained(folder)(read_image(str(cat)), return_tensors="pt")
    model = eager(name, folder)
    runs = {"": lambda: model(**given, output_attentions=True),
            "vision": lambda: model.vision_model(given["pixel_values"], output_attentions=True),
            "text": lambda: model.text_model(given["input_ids"], output_attentions=True)}  # fmt: skip
    for stream, labels in tokens.items():
        before = f"{stream}." * bool(stream)
        np.testing.assert_allclose(found[f"{before}weights"], stacked(runs[stream]().attentions), atol=EXACT)
        assert found[f"{before}tokens"].tolist() == labels


def test_what_was_heard_is_recorded_with_its_seconds(seeing: Seeing, tone: Path, tmp_path: Path) -> None:
    folder, file = seeing("wav2vec2"), tmp_path / "heard.attn"
    live = attn("top", "-m", folder, "--audio", tone, "--json").json
    assert attn("top", "-m", folder, "--audio", tone, "-o", file).code == 0
    assert attn("top", "-m", file, "--json").json["input"] == live["input"]


@torch.no_grad()
def test_a_llava_gets_its_image_before_the_text_or_where_the_text_says(
    seeing: Seeing, cat: Path, tmp_path: Path
) -> None:
    folder = seeing("llava")
    processor, model = AutoProcessor.from_pretrained(folder), eager("LlavaForConditionalGeneration", folder)
    for asked, read, labels in (
        ("what is here?", "<image>what is here?", ["<s>", *PATCHES, "what", "is", "here", "?", "</s>"]),
        ("what is <image> here?", "what is <image> here?", ["<s>", "what", "is", *PATCHES, "here", "?", "</s>"]),
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


@pytest.mark.parametrize(("width", "channels"), [(2, 1), (2, 2), (4, 1)])
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


def test_without_pillow_there_are_no_images(seeing: Seeing, cat: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused(attn("heads", "-m", seeing("vit"), "--image", cat), 3, "package PIL", "pip install 'attn-cli[image]'")


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


ASKED = "what is here ?"


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [
        image_file(tmp_path / "wide.png", bright=(1, 5), columns=8),
        image_file(tmp_path / "small.png", bright=(2, 1)),
    ]


def images(files: list[Path]) -> list[str]:
    return [word for file in files for word in ("--image", str(file))]


def own_inputs(folder: Path, text: str, files: list[Path]) -> Any:
    with without_videos():
        processor = transformers.AutoProcessor.from_pretrained(folder)
    pictures = [read_image(str(file)) for file in files]
    more = {"add_special_tokens": False} if getattr(processor, "chat_template", None) else {}
    return processor(images=pictures, text=[text], return_tensors="pt", **more)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llava", "qwen2_vl"])
def test_two_images_are_read_as_the_model_reads_them(kind: str, pair: list[Path], tmp_path: Path) -> None:
    folder = KINDS[kind](tmp_path / kind)
    run = attn("matrix", ASKED, "-m", folder, *images(pair), "-q", "-o", tmp_path / "x.npz")
    assert run.code == 0, run.errors
    found = dict(np.load(tmp_path / "x.npz"))
    top = attn("top", ASKED, "-m", folder, *images(pair), "-l", "0", "-H", "0", "--json")
    read = top.json["input"]
    assert ("the chat template adds the image" in top.errors) == (kind == "qwen2_vl"), top.errors
    given = own_inputs(folder, read["text"], pair)
    assert found["text.token_ids"].tolist() == given["input_ids"][0].tolist()
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    returned = torch.cat(model(**given, output_attentions=True).attentions)
    np.testing.assert_allclose(found["text.weights"], returned.numpy(), atol=3e-5)
    assert read["images"] == [str(file) for file in pair]
    one = [attn("top", ASKED, "-m", folder, "--image", file, "-l", "0", "-H", "0", "--json", "-q") for file in pair]
    labels = [[token["text"] for token in run.json["input"]["tokens"] if "row" in token] for run in one]
    right = [f"{number}:{label}" for number, of in enumerate(labels, 1) for label in of]
    assert right and [token["text"] for token in read["tokens"] if "row" in token] == right


def test_images_stand_where_the_text_says_and_each_has_its_share(
    pair: list[Path], seeing: Callable[[str], Path], tmp_path: Path
) -> None:
    asked = ("what <image> is <image> here ?", "-m", seeing("llava"), *images(pair), "-l", "1", "-H", "2")
    shown = attn("matrix", *asked, "-t", "here", "--json", "-q").json
    names = [token["text"] for token in shown["input"]["tokens"]]
    assert names[:3] == ["<s>", "what", "1:r0,c0"] and names[18:20] == ["is", "2:r0,c0"] and len(names) == 38
    weights = np.array(shown["tables"]["matrices"][0]["weights"])[0, 0]
    text = attn("matrix", *asked, "-t", "here", "-q").text
    assert f"on image 1 {weights[2:18].sum():.3f} · on image 2 {weights[19:35].sum():.3f}" in text
    assert "weights of 35 here · image 2 · 4 x 4" in text
    run = attn("inspect", *asked, "-q", "-o", tmp_path / "run.attn")
    assert run.code == 0, run.errors
    again = attn("matrix", "-m", tmp_path / "run.attn", "-t", "here", "-q").text
    assert f"on image 1 {weights[2:18].sum():.3f}" in again
    parts = attn("parts", *asked[:7], "--answer", "the cat", "--json", "-q")
    assert {"image 1", "image 2"} <= {part["name"] for part in parts.json["tables"]["parts"]}


def test_models_of_one_image_refuse_two(pair: list[Path], seeing: Callable[[str], Path]) -> None:
    for kind, text in (("vit", []), ("trocr", []), ("clip", ["a cat"]), ("siglip", ["a cat"])):
        refused(attn("heads", *text, "-m", seeing(kind), *images(pair)), 2, "reads one image at a time")
    for marks, said in (("<image>", "1 place for 2 files"), ("<image>" * 3, "3 places for 2 files")):
        refused(attn("heads", f"{marks} a cat", "-m", seeing("llava"), *images(pair)), 2, said)


FADED = 0.72 * 255  # a black patch that gets nothing; a white one is white whatever it gets
_PICTURE = re.compile(r'<image[^>]*base64,([^"]+)"')


def pictures(svg: str) -> list[np.ndarray]:
    """The pixels of every picture but bars of colours, in grey on white paper."""
    found = (io.BytesIO(base64.b64decode("".join(data.split()))) for data in _PICTURE.findall(svg))
    read = [np.flipud(Image.open(file).convert("RGBA")).astype(float) for file in found]  # drawn from below
    grey = [255 + (x[..., :3].mean(axis=2) - 255) * x[..., 3] / 255 for x in read]
    return [pixels for pixels in grey if pixels.shape[0] < 4 * pixels.shape[1]]


ASKED_OF = {"vit": ((), "[CLS]"), "clip": (("the cat",), "[CLS]")}
ASKED_OF |= dict.fromkeys(("llava", "qwen2_vl"), (("what is here",), "here"))


@pytest.mark.parametrize("kind", ASKED_OF)
def test_cells_lie_on_the_patches_that_they_are_of(kind: str, seeing: Seeing, tmp_path: Path) -> None:
    (words, query), columns = ASKED_OF[kind], 6 if kind == "qwen2_vl" else 4
    for place in (1, 2), (3, 0):
        file = image_file(tmp_path / f"{place}.png", bright=place, columns=columns)
        asked = (*words, "-m", seeing(kind), "--image", file, "-t", query, "-l", "-1", "--mean")
        run = attn("matrix", *asked, "-f", "svg")
        assert run.code == 0, run.errors
        (grey,) = pictures(run.text)
        assert grey.shape[1] / grey.shape[0] == pytest.approx(columns / 4, rel=1e-2)
        high, wide = grey.shape[0] // 4, grey.shape[1] // columns
        middles = grey[high // 2 :: high, wide // 2 :: wide][:4, :columns]
        cells = map(json.loads, attn("matrix", *asked, "-f", "jsonl").lines)
        side = 2 if kind == "qwen2_vl" else 1  # whose text has a token for 2 x 2 patches
        patches = {name: cell["weight"] for cell in cells if re.fullmatch(r"r\d+,c\d+", name := cell["key_token"])}
        shares = [[patches[f"r{row // side},c{at // side}"] for at in range(columns)] for row in range(4)]
        expected = FADED * (1 - (np.array(shares) / max(patches.values())) ** 0.6)
        expected[place] = 255
        np.testing.assert_allclose(middles, expected, atol=12)  # black and white are near 0 and 255 in normed colours
        if kind == "vit":  # which opens at [CLS]
            assert all(pictures(attn(command, *asked[:4], "-f", "svg").text) for command in ("inspect", "top"))
            assert attn("matrix", *asked[:-5], *asked[-3:], "-f", "svg").bytes == run.bytes


@pytest.mark.parametrize("kind", ["vit_mae", "llava_next"])
def test_a_picture_without_a_map_says_so(kind: str, seeing: Seeing, tmp_path: Path) -> None:
    file = image_file(tmp_path / "a.png", bright=(1, 2))
    asked = ["what is here?"] if kind == "llava_next" else []
    run = attn("matrix", *asked, "-m", seeing(kind), "--image", file, "-l", "-1", "--mean", "-t", "0", "-f", "svg")
    assert run.code == 0 and not pictures(run.text)
    assert f"patches of the picture have no map ({kind}): its tokens keep their names" in run.errors
