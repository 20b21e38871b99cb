"""Models with several stacks: the screen of each has the keys that its own heads read."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import ViTConfig, ViTModel

from tests.cli.test_words import pieces_tokenizer
from tests.program import attn, refused
from tests.sources.huggingface.models import tiny


def ask_one_thing(model: nn.Module) -> None:
    """Make each head ask the same in all rows, so that all of them read one key."""
    with torch.no_grad():
        for name, x in model.named_parameters():
            if any(part in name for part in ("q_proj", "q.bias", "query", "attention.q_proj")):
                x.normal_(0, 0 if name.endswith("weight") else 40)


TEXTS = [("the cat", "la chatte etait assise sur la rive"), ("he sat on the bank by the river", "la banque")]


@pytest.mark.parametrize("kind", ["t5", "bart"])
@pytest.mark.parametrize(("text", "decoder"), TEXTS)
def test_the_key_with_most_weight_is_listed(kind: str, text: str, decoder: str, tmp_path: Path) -> None:
    """Eight heads in each stack: what one or two of them read is no sink."""
    model, tokenizer = tiny(kind), pieces_tokenizer()
    ask_one_thing(model)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    asked = ("top", text, "--pair", decoder, "-m", tmp_path, "-t", "4")
    run = attn(*asked, terminal=True, env={"COLUMNS": "100", "NO_COLOR": "1"})
    assert run.code == 0, run.errors
    streams = attn(*asked, "--json").json["input"]["streams"]
    ids = [token["id"] for token in streams["decoder"]]
    with torch.no_grad():
        returned = model(tokenizer(text, return_tensors="pt")["input_ids"], decoder_input_ids=torch.tensor([ids]),
                         output_attentions=True)  # fmt: skip
    screens = run.text.split("attends to")
    assert len(screens) == 4
    for screen, name in zip(screens[1:], ("encoder_attentions", "decoder_attentions", "cross_attentions"), strict=True):
        weights = np.mean([x[0, :, 4].numpy().mean(0) for x in returned[name]], axis=0)
        weights[0] *= name != "decoder_attentions"  # the first token of causal text is a sink
        key = int(weights.argmax())
        assert re.search(rf'" {key} +{weights[key]:.2f}', screen)


def test_a_patch_that_one_head_of_eight_reads_is_no_sink(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=8, intermediate_size=16, image_size=16,
                       patch_size=4, attn_implementation="eager")  # fmt: skip
    model, pixels = ViTModel(config).eval(), torch.randn(1, 3, 16, 16)
    ask_one_thing(model)
    model.save_pretrained(tmp_path)
    np.savez(tmp_path / "in.npz", pixel_values=pixels)
    with torch.no_grad():
        weights = model(pixel_values=pixels, output_attentions=True).attentions[0][0].mean(1)  # [h, m]
    readers = (weights > 0.3).sum(0)
    asked = ("inspect", "-m", tmp_path, "-F", tmp_path / "in.npz")
    sources = attn(*asked, "--json").json["tables"]["reads"][1:4]
    assert 0 < max(readers[source["key"]] for source in sources) < 3
    assert "no patch reads" not in attn(*asked, terminal=True).text


@pytest.mark.parametrize(
    ("asked", "stream", "layer", "heads"),
    [
        (("-H", "cross:1.2"), "cross", 1, [2]),
        (("-H", "cross 1.2,cross 1.3"), "cross", 1, [2, 3]),
        (("-l", "encoder:0"), "encoder", 0, [0, 1, 2, 3]),
        (("-l", "1", "-H", "decoder:0"), "decoder", 1, [0]),
    ],
)
def test_the_heads_of_one_stack(
    asked: tuple[str, ...], stream: str, layer: int, heads: list[int], tmp_path: Path
) -> None:
    model, tokenizer = tiny("bart"), pieces_tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text, decoder = TEXTS[1]
    rows = attn("matrix", text, "--pair", decoder, "-m", tmp_path, *asked, "--json").json
    with torch.no_grad():
        returned = model(**{"input_ids" if name == "text" else "decoder_input_ids": torch.tensor([ids])
                            for name, ids in _ids(rows).items()}, output_attentions=True)  # fmt: skip
    expected = returned[f"{stream}_attentions"][layer][0, heads]
    (matrix,) = rows["tables"]["matrices"]
    assert (matrix["stream"], matrix["layer"], matrix["heads"]) == (stream, layer, heads)
    np.testing.assert_allclose(np.array(matrix["weights"], dtype=float), expected, atol=1e-4)


def _ids(document: dict[str, Any]) -> dict[str, list[int]]:
    streams = {"text": document["input"]["tokens"], "decoder": document["input"]["streams"]["decoder"]}
    return {name: [token["id"] for token in tokens] for name, tokens in streams.items()}


def test_a_stack_that_is_not_there(tmp_path: Path) -> None:
    tiny("bart").save_pretrained(tmp_path)
    pieces_tokenizer().save_pretrained(tmp_path)
    asked = ("heads", TEXTS[0][0], "--pair", TEXTS[0][1], "-m", tmp_path, "-H")
    refused(attn(*asked, "vision:0.1"), 2, "there is no attention named 'vision'", "there is encoder, decoder, cross")
    refused(attn(*asked, "cross:2.0"), 2, "there is no layer 2")
    refused(attn(*asked, "cross:0.1,encoder:0.1"), 2, "cross and encoder at once")
    refused(attn("heads", "river bank", "-H", "cross:0.1"), 2, "there is no attention named 'cross'", "there is self")
