"""Models found by name, and names refused before anything is loaded."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attn_cli.errors import ExitCode, InputError, LoadError
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions, find
from attn_cli.sources.huggingface.load.trust import check_files
from tests.sources.huggingface.folders import edited_config, linked, replaced


def refused(name: str | Path, **options: Any) -> LoadError:
    with pytest.raises(LoadError) as caught:
        find(str(name), OriginOptions(**options))
    assert caught.value.code == ExitCode.LOAD
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", ["gpt2", "sentence-transformers/all-MiniLM-L6-v2", "org/name.with-dots_2"])
def test_an_id_of_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.sources.huggingface.load.cache.commit_of", lambda *_: "abc")
    assert find(name, OriginOptions()) == Origin(name, name, OriginOptions(), local=False)
    for revision in ("main", "v1.0", "refs/pr/1"):
        found = find(f"{name}@{revision}", OriginOptions())
        assert found == Origin(f"{name}@{revision}", name, OriginOptions(), local=False, revision=revision)
        assert found.hub["revision"] == revision and found.download == f"hf download {name} --revision {revision}"


NOWHERE = "./nope|/nope/nope|~/nope|a/b/c|nope.gguf||has space|../x|a//b|./a@b|a/b/c@d|a@|@a|a@b.gguf"


@pytest.mark.parametrize("name", NOWHERE.split("|"))
def test_a_path_that_is_not_there_is_no_id(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "no such file or folder" in refused(name).message


TOKENIZER = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
NO_MODEL: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    "some other file": (lambda minilm, m: replaced(m, "notes.txt", "x") / "notes.txt", "is a file"),
    "no GGUF": (lambda minilm, m: replaced(m, "a.gguf", "<html>") / "a.gguf", "not a GGUF file"),
    "a GGUF beside no config": (lambda minilm, m: replaced(m, "a.gguf", "GGUF"), "a.gguf"),
    "no config": (lambda minilm, m: linked(minilm, m / "m", without=("config.json",)), "has no config.json"),
    "no tokenizer": (lambda minilm, m: linked(minilm, m / "m", without=TOKENIZER), "no tokenizer"),
    "code deep inside": (
        lambda minilm, m: edited_config(linked(minilm, m / "m"), vision_config={"inner": [{"auto_map": {}}]}),
        "vision_config.inner[0]",
    ),
    "an adapter beside a model": (
        lambda minilm, m: replaced(linked(minilm, m / "m"), "adapter_config.json", '{"base_model_name_or_path": "a"}'),
        "holds an adapter (adapter_config.json) and a model",
    ),
}


@pytest.mark.parametrize("what", NO_MODEL)
def test_what_is_no_model_is_named(what: str, minilm_folder: Path, tmp_path: Path) -> None:
    make, words = NO_MODEL[what]
    error = refused(make(minilm_folder, tmp_path))
    assert words in error.message + error.hint


def test_a_near_name_is_offered(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    assert refused(tmp_path / "my-modle").hint == f"did you mean {tmp_path / 'my-model'}?"


@pytest.mark.parametrize(
    "text", ["", "{", '{"model_type": "be', "[1]", "\x00", '{"model_type": ["bert"]}', "[" * 100_000]
)
def test_a_config_that_is_cut_short_or_no_object(minilm_folder: Path, tmp_path: Path, text: str) -> None:
    folder = replaced(linked(minilm_folder, tmp_path / "m"), "config.json", text)
    assert "config.json" in refused(folder).message


def test_code_of_its_own(minilm_folder: Path, tmp_path: Path) -> None:
    folder = edited_config(linked(minilm_folder, tmp_path / "m"), auto_map={"AutoModel": "code.Model"})
    error = refused(folder)
    assert "config.json: auto_map" in error.message
    assert "--trust-remote-code" in error.hint
    find(str(folder), OriginOptions(trust_remote_code=True))


@pytest.mark.parametrize("key", ["_attn_implementation", "_attn_implementation_internal", "attn_implementation"])
@pytest.mark.parametrize("value", ["someone/kernel", {"": "someone/kernel"}, ["sdpa"]])
@pytest.mark.parametrize("trust", [False, True])
def test_a_foreign_attention_kernel(minilm_folder: Path, tmp_path: Path, key: str, value: Any, trust: bool) -> None:
    folder = edited_config(linked(minilm_folder, tmp_path / "m"), **{key: value})
    assert f"config.json: {key}" in refused(folder, trust_remote_code=trust).message
    folder = edited_config(linked(minilm_folder, tmp_path / "n"), text_config={key: value})
    assert f"config.json.text_config: {key}" in refused(folder, trust_remote_code=trust).message


def test_an_unknown_dtype(minilm_folder: Path) -> None:
    with pytest.raises(InputError, match="float12") as caught:
        find(str(minilm_folder), OriginOptions(dtype="float12"))
    assert "bfloat16" in caught.value.hint


def test_a_folder_with_an_at_in_its_name_is_a_folder(minilm_folder: Path, tmp_path: Path) -> None:
    folder = linked(minilm_folder, tmp_path / "m@main")
    origin = find(str(folder), OriginOptions())
    assert (origin.local, origin.path, origin.revision) == (True, str(folder), None)


def _index(folder: Path, file: object) -> Path:
    folder.mkdir(parents=True)
    index = {"metadata": {}, "weight_map": {"w": file}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def unread(folder: Path, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        check_files(folder, "m")


@pytest.mark.parametrize("file", ["../outside", "/etc/hostname", "a/../../outside", ""])
def test_shards_outside_the_folder_are_refused_by_name(file: str, tmp_path: Path) -> None:
    unread(_index(tmp_path / "m", file), "index.json names a file outside the folder")


@pytest.mark.parametrize("map_of_weights", [None, [], {"w": 7}, "x"])
def test_an_index_without_a_map_is_refused(map_of_weights: object, tmp_path: Path) -> None:
    (tmp_path / "a.index.json").write_text(json.dumps({"weight_map": map_of_weights}))
    unread(tmp_path, "has no map of weights to files")


def test_weights_may_be_links_to_anywhere(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "1.safetensors").write_text("x")
    folder = _index(tmp_path / "m", "model-1.safetensors")
    (folder / "model-1.safetensors").symlink_to("../shared/1.safetensors")
    (folder / "pytorch_model.bin").symlink_to(tmp_path / "shared" / "1.safetensors")
    check_files(folder, "m")
    sub = _index(tmp_path / "n", "sub/1.safetensors")
    (sub / "sub").symlink_to("../shared")
    check_files(sub, "m")


@pytest.mark.parametrize("file", ["model.safetensors", "sub/model.safetensors"])
def test_a_link_to_weights_that_are_gone_or_a_pipe_or_a_device_is_refused(file: str, tmp_path: Path) -> None:
    folder = _index(tmp_path / "m", file)
    (folder / file).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "pipe")
    for target, words in [
        ("gone", "model.safetensors is a link to a missing file: .*gone"),
        ("pipe", "model.safetensors is a pipe, not a file"),
        (os.devnull, "model.safetensors is a device, not a file"),
    ]:
        (folder / file).symlink_to(tmp_path / target)
        unread(folder, words)
        (folder / file).unlink()


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_a_file_may_be_a_link_to_that_of_another_model(file: str, tmp_path: Path) -> None:
    blobs, base, folder = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "1", tmp_path / "m"
    for place in (blobs, base, folder):
        place.mkdir(parents=True)
    (blobs / "abc").write_text("{}")
    for name in ("config.json", "tokenizer.json"):
        (base / name).symlink_to("../../blobs/abc")
    (folder / file).symlink_to(base / file)
    unread(folder, f"{file} is a link that leaves the folder")  # no model: a folder of settings, such as ~/.docker
    (base / "model.safetensors").write_text("")
    check_files(folder, "m")
    (base / file).unlink()
    (base / file).symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("{}")
    unread(folder, f"{file} is a link that leaves the folder")
    (folder / file).unlink()
    (folder / file).symlink_to(base / ("config.json" if file == "tokenizer.json" else "tokenizer.json"))
    unread(folder, f"{file} is a link that leaves the folder")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "vocab.txt", "additional_chat_templates/rag.jinja"])
def test_what_else_a_model_is_read_from_is_no_link_to_elsewhere(file: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = tmp_path / "m"
    (folder / file).parent.mkdir(parents=True)
    (folder / "README.md").symlink_to(tmp_path / "outside")  # which isn't read
    (folder / "merges.txt").symlink_to("README.txt")  # which lies in the folder
    check_files(folder, "m")
    (folder / file).symlink_to(tmp_path / "outside")
    unread(folder, f"{file} is a link that leaves the folder")
    (folder / file).unlink()
    (folder / file).hardlink_to(tmp_path / "outside")
    check_files(folder, "m")


def test_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "hub" / "blobs").mkdir()
    (tmp_path / "hub" / "blobs" / "1f").write_text("x")
    (snapshot / "vocab.txt").symlink_to("../../blobs/1f")
    check_files(snapshot, "m")
    (snapshot / "vocab.txt").unlink()
    (snapshot / "vocab.txt").symlink_to(tmp_path / "outside")
    unread(snapshot, "a link that leaves the folder")


def test_an_index_names_no_link_to_elsewhere_but_weights(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = _index(tmp_path / "m", "shard")
    (folder / "shard").symlink_to(tmp_path / "outside")
    unread(folder, "index.json names 'shard', a link that leaves the folder")


def test_a_tokenizer_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"fast_tokenizer_files": ["../x/tokenizer.4.0.json"]}))
    unread(tmp_path, "names a file outside the folder")
