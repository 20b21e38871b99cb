"""A .gguf file is unpacked once: later commands load the copy, which is equal, bounded, private, never relied on."""

import os
from pathlib import Path

import gguf
import numpy as np
import pytest

from attn_cli import kept
from attn_cli.sources.huggingface.load import checkpoint
from tests.program import attn

TEXT = "abba"
WORDS = [*"abcdefgh", "ab", "ba"]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path, draw = tmp_path / "tiny.gguf", np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_merges(["a b", "b a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    for name, value in {"vocab_size": len(WORDS), "context_length": 64, "embedding_length": 32, "block_count": 1,
                        "feed_forward_length": 32, "head_count": 4, "head_count_kv": 2,
                        "layer_norm_rms_eps": 1e-6}.items():  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    sizes = {"token_embd": (len(WORDS), 32), "output_norm": (32,), "output": (len(WORDS), 32)}
    layer = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32), "attn_norm": (32,),
             "ffn_norm": (32,), "ffn_gate": (32, 32), "ffn_up": (32, 32), "ffn_down": (32, 32)}  # fmt: skip
    for name, size in (sizes | {f"blk.0.{name}": size for name, size in layer.items()}).items():
        weights = draw.normal(size=size).astype(np.float32)
        if len(size) == 1:
            writer.add_tensor(f"{name}.weight", weights)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"ATTN_CACHE": str(tmp_path / "cache")}


def copies(cache: dict[str, str]) -> list[Path]:
    return sorted(Path(cache["ATTN_CACHE"]).glob("models/*"))


def not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> object:
        raise AssertionError("a .gguf file is read")

    monkeypatch.setattr(checkpoint, "read_once", refuse)


def test_a_second_command_loads_the_copy(packed: Path, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = attn("heads", TEXT, "-m", packed, "--json")  # kept nowhere
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).json == first.json
    (folder,) = copies(cache)
    assert folder.stat().st_mode & 0o777 == 0o700
    story = attn("inspect", TEXT, "-m", packed, "--json")
    not_unpacked(monkeypatch)
    assert "a .gguf file is read" in attn("heads", "baab", "-m", packed, env={"ATTN_CACHE": "off"}).errors
    again = attn("heads", TEXT, "-m", packed, "--json", env=cache)
    assert again.json == first.json
    assert attn("inspect", TEXT, "-m", packed, "--json", env=cache).json == story.json
    link = packed.with_name("link.gguf")
    link.symlink_to(packed)
    assert attn("top", TEXT, "-m", link, env=cache).code == 0
    assert attn("top", TEXT, "-m", packed, "--generate", "2", "--json", env=cache).code == 0
    (shown,) = attn("env", "--json", env=cache).json["tables"]["models"]
    assert shown["bytes"] == sum(file.stat().st_size for file in folder.iterdir())


def test_a_changed_file_and_a_spoilt_copy_are_unpacked_anew(packed: Path, cache: dict[str, str]) -> None:
    first = attn("heads", TEXT, "-m", packed, "--json", env=cache).json
    (folder,) = copies(cache)
    (folder / "model.safetensors").write_bytes(b"spoilt")
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).json == first
    assert (folder / "model.safetensors").stat().st_size > 1000
    os.utime(packed, ns=(1, 1))
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).json == first
    assert len(copies(cache)) == 2


def test_copies_are_bounded(packed: Path, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 10_000)
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).code == 0
    assert not copies(cache)
    monkeypatch.setattr(kept, "MOST", 60_000)
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).code == 0
    (older,) = copies(cache)
    os.utime(packed, ns=(1, 1))
    assert attn("heads", TEXT, "-m", packed, "--json", env=cache).code == 0
    (newer,) = copies(cache)
    assert older != newer
