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


def test_a_scale_that_is_one_percent_off_is_found(
    llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path
) -> None:
    wrong = {(side, layer): 1.01 * x if (side, layer) == ("q", 1) else x for (side, layer), x in seen.items()}
    dump = dumped(tmp_path, {at: x.astype(np.float32) for at, x in wrong.items()}, "heads first")
    run = attn("record", "--from", dump, "-m", llama, "--check", "-o", tmp_path / "x.attn")
    assert run.code == ExitCode.NEGATIVE, run.errors
    assert "in layer 1" in run.errors
    assert "times what float32 explains" in run.errors


def test_a_pass_in_bfloat16_is_the_models(llama: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(llama, attn_implementation="eager", dtype=torch.bfloat16).eval()
    arrays = {"tokens": torch.tensor(IDS)}

    def visit(call: Any) -> None:
        arrays.update({f"layers.{call.place.layer}.{side}": getattr(call, side).contiguous() for side in "qk"})

    with torch.no_grad(), capture(model, visit):
        model(torch.tensor([IDS]))
    assert arrays["layers.1.q"].dtype == torch.bfloat16
    save_file(arrays, tmp_path / "x.safetensors")
    run = attn("record", "--from", tmp_path / "x.safetensors", "-m", llama, "--check", "-o", tmp_path / "x.attn")
    assert run.code == 0, run.errors
    save_file({**arrays, "layers.0.k": arrays["layers.0.k"].roll(1, 1)}, tmp_path / "x.safetensors")
    run = attn(
        "record", "--from", tmp_path / "x.safetensors", "-m", llama, "--check", "-o", tmp_path / "x.attn", "--force"
    )
    assert run.code == ExitCode.NEGATIVE, run.errors
    assert "times what bfloat16 explains" in run.errors


def hooked_run(folder: Path, seen: dict[tuple[str, int], np.ndarray], *, last: bool = False) -> Path:
    """A folder of vLLM-Hook: a run of two texts, the second of which is that of `seen`, by two processes."""
    (folder / "RUN_ID.txt").write_text("older\nnewer\n")
    for rank in (0, 1):
        place = folder / "newer" / f"tp_rank_{rank}"
        place.mkdir(parents=True)
        arrays, order = {}, []
        for layer in (0, 1):
            module = f"model.layers.{layer}.self_attn.attn"
            keys = {f"key_{side}": f"{module.replace('.', '__')}__{side}" for side in "qk"}
            for side in "qk":
                heads = np.array_split(seen[side, layer], 2)[rank]  # [h / 2, n, d]
                own = heads.swapaxes(0, 1).reshape(len(IDS), -1)
                both = torch.from_numpy(np.stack([np.zeros_like(own), own])).contiguous()
                arrays[keys[f"key_{side}"]] = both[:, -1].contiguous() if last and side == "q" else both
            order.append({**keys, "module_name": module, "layer_num": layer})
        h, g, d = len(seen["q", 0]), len(seen["k", 0]), seen["q", 0].shape[2]
        config = {"num_attention_heads": h, "num_key_value_heads": g, "hidden_size": h * d, "head_dim": d,
                  "attention_multiplier": d**-0.5}  # fmt: skip
        meta = {"config": config, "layer_order": order, "batch_size": 2, "hookq_mode": "all_tokens", "tp_rank": rank,
                "seq_lens": [4, len(IDS)]}  # fmt: skip
        save_file(arrays, place / "qk.safetensors")
        (place / "qk.json").write_text(json.dumps(meta))
    return folder


@pytest.mark.parametrize("last", [False, True])
def test_a_run_of_vllm_hook(llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path, last: bool) -> None:
    (tmp_path / "ids.json").write_text(json.dumps(IDS))
    folder, file = hooked_run(tmp_path, seen, last=last), tmp_path / "x.attn"
    refused(attn("record", "--from", folder, "-o", file), ExitCode.USAGE, "holds 2 texts: its texts have 4, 10")
    run = attn("record", "--from", folder, "--tokens", tmp_path / "ids.json", "-m", llama, "--check", "-o", file)
    assert run.code == 0, run.errors
    assert f"{1 if last else 10} row{'' if last else 's'} of 2 layers" in run.errors
    alone = attn("record", "--from", folder / "newer", "--tokens", tmp_path / "ids.json", "-o", tmp_path / "y.attn")
    assert alone.code == 0, alone.errors
    whole = attn("record", "--from", dumped(tmp_path, seen, "heads first"), "-o", tmp_path / "z.attn")
    assert whole.code == 0, whole.errors
    of_model, stated, plain_dump = (Recording.load(tmp_path / f"{name}.attn") for name in "xyz")
    for first, second, third in zip(plain(of_model), plain(stated), plain(plain_dump), strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, third[:, -1:] if last else third, atol=1e-6)


def test_a_run_of_vllm_hook_that_can_not_be_read(seen: dict[tuple[str, int], np.ndarray], tmp_path: Path) -> None:
    folder = hooked_run(tmp_path, seen)
    (tmp_path / "short.json").write_text("[1, 2]")
    words = "--tokens", tmp_path / "short.json", "-o", tmp_path / "x.attn"
    refused(attn("record", "--from", folder, *words), ExitCode.USAGE, "no text of 2 tokens: its texts have 4, 10")
    for rank in (0, 1):
        place = folder / "newer" / f"tp_rank_{rank}"
        (place / "qk.json").unlink()
        (place / "qk.safetensors").rename(place / "qk.pt")
    refused(attn("record", "--from", folder, *words), ExitCode.USAGE, "VLLM_HOOK_USE_SAFETENSORS=1")


def test_a_capture_of_interp_engine(llama: Path, seen: dict[tuple[str, int], np.ndarray], tmp_path: Path) -> None:
    folder = tmp_path / "vllm" / "org"
    folder.mkdir(parents=True)
    arrays = {}
    for layer in (0, 1):
        q, k = seen["q", layer], np.repeat(seen["k", layer], len(seen["q", 0]) // len(seen["k", 0]), axis=0)
        scores = q @ k.swapaxes(1, 2) * q.shape[2] ** -0.5
        future = np.triu(np.ones(scores.shape[1:], bool), 1)
        scores = np.where(future, np.finfo(np.float32).min, scores)
        arrays[f"attn_scores.{layer}"] = scores.astype(np.float32)
    np.savez_compressed(folder / "model.npz", **arrays)
    (folder / "model.meta.json").write_text(json.dumps({"engine": "vllm", "hf_id": "org/model", "status": "ok"}))
    (tmp_path / "inputs" / "org").mkdir(parents=True)
    inputs = {"hf_id": "org/model", "input_ids": IDS, "n_layers": 2, "layers": [0, 1]}
    (tmp_path / "inputs" / "org" / "model.json").write_text(json.dumps(inputs))
    run = attn("record", "--from", folder / "model.npz", "-m", llama, "--check", "-o", tmp_path / "x.attn")
    assert run.code == 0, run.errors
    whole = attn("record", "--from", dumped(tmp_path, seen, "heads first"), "-o", tmp_path / "z.attn")
    assert whole.code == 0, whole.errors
    ours, theirs = (Recording.load(tmp_path / f"{name}.attn") for name in "xz")
    for first, second in zip(plain(ours), plain(theirs), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)
    assert [token.id for token in ours.prompt.tokens] == IDS
    shown = attn("top", "-m", tmp_path / "x.attn", "-H", "1.0", "-t", "-1")
    assert shown.code == 0, shown.errors
    arrays["attn_scores.1"] = np.where(future, np.finfo(np.float32).min, 1.01 * arrays["attn_scores.1"].clip(-99))
    np.savez_compressed(folder / "model.npz", **arrays)
    run = attn("record", "--from", folder / "model.npz", "-m", llama, "--check", "-o", tmp_path / "x.attn", "--force")
    assert run.code == ExitCode.NEGATIVE, run.errors
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
        (("--from", dump, "--tokens", tmp_path / "none.json", "-o", file), "can't be read"),
        (
            ("--from", tmp_path / "no_k.npz", "-o", file),
            "has queries and keys, or attn_scores, by name: it holds layer.0.q",
        ),
        (("--from", tmp_path / "before.npz", "-o", file), "if layer.0.q_proj is turned by no rotary positions: --map"),
        (("--from", tmp_path / "short.npz", "-m", llama, "-o", file), "is it of this text?"),
    ):
        refused(attn("record", *words), ExitCode.USAGE, line)
    assert not file.exists()
    mapped = [x for side in "qk" for x in ("--map", f"layer.{{layer}}.{side}_proj={side}_rotated")]
    assert attn("record", "--from", tmp_path / "before.npz", *mapped, "-o", file).code == 0
