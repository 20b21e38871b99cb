"""`attn record --from`: what another engine saw of a text becomes a recording, held against the model that it ran."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attn_cli import AttentionCall, capture
from attn_cli.errors import ExitCode
from attn_cli.recording import Recording
from tests.program import attn, refused

IDS = [1, 5, 7, 4, 6, 8, 5, 9, 4, 7]


@pytest.fixture(scope="module")
def seen(llama: Path) -> dict[tuple[str, int], np.ndarray]:
    """q, k and v `[heads, n, d]` of each layer of the tiny Llama, as its attention gets them."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(llama, attn_implementation="eager").eval()
    found: dict[tuple[str, int], np.ndarray] = {}

    def visit(call: Any) -> None:
        assert isinstance(call, AttentionCall)
        found.update({(name, call.place.layer): np.asarray(getattr(call, name)).copy() for name in "qkv"})

    with torch.no_grad(), capture(model, visit):
        model(torch.tensor([IDS]))
    return found


Form = Callable[[np.ndarray], np.ndarray]
FORMS: dict[str, tuple[str, Form]] = {
    "heads first": ("model.layers.{}.self_attn.{}", lambda x: x),
    "a batch of tokens first": ("blk.{}.{}", lambda x: x.swapaxes(0, 1)[None]),
    "joined": ("{1}cur-{0}", lambda x: x.swapaxes(0, 1).reshape(len(IDS), -1)),
}


def dumped(folder: Path, seen: dict[tuple[str, int], np.ndarray], form: str, **more: np.ndarray) -> Path:
    """A file of them in one form."""
    name, shaped = FORMS[form]
    arrays = {name.format(layer, side.upper() if "cur" in name else side): shaped(x)
              for (side, layer), x in seen.items()}  # fmt: skip
    np.savez(folder / "dump.npz", **{"tokens": np.array(IDS)} | arrays | more)
    return folder / "dump.npz"


def plain(recording: Recording) -> list[np.ndarray]:
    return [np.stack([layer.weights(head, slice(0, layer.n), slice(0, layer.m)) for head in range(layer.h)])
            for layer in recording.layers]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_weights_are_those_of_the_models_own_pass(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path, form: str
) -> None:
    from transformers import AutoModel

    dump, file = dumped(tmp_path, seen, form), tmp_path / "x.attn"
    run = attn("record", "--from", dump, "-m", llama, "--check", "-o", file)
    assert run.code == 0, run.errors
    assert "2 layers, 8 heads, 10 tokens" in run.errors
    assert "weights are the model's" in run.errors
    assert "apart at most, 10 rows of 2 layers" in run.errors
    read = Recording.load(file)
    model = AutoModel.from_pretrained(llama, attn_implementation="eager").eval()
    with torch.no_grad():
        attentions = model(torch.tensor([IDS]), output_attentions=True).attentions
    for ours, theirs in zip(plain(read), attentions, strict=True):
        np.testing.assert_allclose(ours, theirs[0], atol=1e-6)
    assert [token.id for token in read.prompt.tokens] == IDS
    assert not read.prompt.tokens[1].text.isdigit()
    norms = np.linalg.norm(seen["v", 1], axis=-1)
    np.testing.assert_allclose(read.layers[1].value_norms, norms, rtol=1e-5)


def test_without_a_model_heads_are_said_or_read_off_three_axes(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path
) -> None:
    h, g = len(seen["q", 0]), len(seen["k", 0])
    three = attn("record", "--from", dumped(tmp_path, seen, "heads first"), "-o", tmp_path / "a.attn")
    joined = dumped(tmp_path, seen, "joined")
    both = attn("record", "--from", joined, "--heads", h, "--kv-heads", g, "-o", tmp_path / "b.attn")
    assert (three.code, both.code) == (0, 0), (three.errors, both.errors)
    left, right = (Recording.load(tmp_path / name) for name in ("a.attn", "b.attn"))
    for ours, theirs in zip(plain(left), plain(right), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    refused(attn("record", "--from", joined, "-o", tmp_path / "c.attn"), ExitCode.USAGE, "doesn't say how many heads")
    assert attn("top", "-m", tmp_path / "a.attn", "-H", "0.0").code == 0


def test_a_folder_in_bfloat16_with_a_servers_own_ids(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path
) -> None:
    (tmp_path / "dumps").mkdir()
    for layer in (0, 1):
        arrays = {f"layer.{layer}.{side}": torch.from_numpy(seen[side, layer]).bfloat16().contiguous() for side in "qk"}
        save_file(arrays, tmp_path / "dumps" / f"{layer}.safetensors")
    (tmp_path / "ids.json").write_text(json.dumps(IDS))
    run = attn("record", "--from", tmp_path / "dumps", "--tokens", tmp_path / "ids.json", "-m", llama, "--check",
               "-o", tmp_path / "x.attn")  # fmt: skip
    assert run.code == 0, run.errors
    kept = Recording.load(tmp_path / "x.attn").layers[1]
    assert kept.q is not None and kept.q.dtype == np.uint16  # as many bits as were given
    bits = torch.from_numpy(seen["q", 1]).bfloat16().view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(kept.q, bits)


def test_other_weights_than_the_models_are_found(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path
) -> None:
    wrong = seen | {("k", 1): np.roll(seen["k", 1], 1, axis=1)}
    run = attn(
        "record", "--from", dumped(tmp_path, wrong, "heads first"), "-m", llama, "--check", "-o", tmp_path / "x.attn"
    )
    assert (run.code, (tmp_path / "x.attn").exists()) == (ExitCode.NEGATIVE, True)
    assert "weights are NOT the model's" in run.errors
    assert "in layer 1" in run.errors


def test_what_can_not_be_recorded_is_refused(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path
) -> None:
    dump, file = dumped(tmp_path, seen, "heads first"), tmp_path / "x.attn"
    np.savez(tmp_path / "no_k.npz", tokens=np.array(IDS), **{"layer.0.q": seen["q", 0]})
    np.savez(tmp_path / "short.npz", tokens=np.array(IDS[:4]), **{f"layer.0.{x}": seen[x, 0] for x in "qk"})
    np.savez(tmp_path / "before.npz", tokens=np.array(IDS), **{f"layer.0.{x}_proj": seen[x, 0] for x in "qk"})
    (tmp_path / "ids.json").write_text('["a"]')
    for words, line in (
        ((), "nothing to record\n      --from DUMP names it"),
        (("--from", dump), "no file for the recording\n      name it: -o FILE.attn"),
        (("--from", dump, "-o", tmp_path / "x.json"), "a recording is no json"),
        (("--from", dump, "--check", "-o", file), "--check needs the model"),
        (("--from", dump, "-m", llama, "--scale", "1", "-o", file), "--scale beside --model"),
        (("--from", dump, "-m", "toy", "-o", file), "toy has no rules of layers"),
        (("--from", dump, "--tokens", tmp_path / "ids.json", "-o", file), "holds no list of token ids"),
        (("--from", dump, "--tokens", tmp_path / "none.json", "-o", file), "can't read"),
        (("--from", tmp_path / "no_k.npz", "-o", file), "has queries and keys by name: it holds layer.0.q"),
        (("--from", tmp_path / "before.npz", "-o", file), "if layer.0.q_proj is turned by no rotary positions: --map"),
        (("--from", tmp_path / "short.npz", "-m", llama, "-o", file), "is it of this text?"),
    ):
        refused(attn("record", *words), ExitCode.USAGE, line)
    assert not file.exists()
    mapped = [x for side in "qk" for x in ("--map", f"layer.{{layer}}.{side}_proj={side}_rotated")]
    assert attn("record", "--from", tmp_path / "before.npz", *mapped, "-o", file).code == 0
