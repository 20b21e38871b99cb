"""A model's folder is read, and nothing that its files name elsewhere."""

import json
import os
from pathlib import Path

import pytest

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.trust import check_files


def _index(folder: Path, file: object) -> Path:
    folder.mkdir(parents=True)
    index = {"metadata": {}, "weight_map": {"w": file}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def refused(folder: Path, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        check_files(folder, "m")


@pytest.mark.parametrize("file", ["../outside", "/etc/hostname", "a/../../outside", ""])
def test_shards_outside_the_folder_are_refused_by_name(file: str, tmp_path: Path) -> None:
    refused(_index(tmp_path / "m", file), "index.json names a file outside the folder")


@pytest.mark.parametrize("map_of_weights", [None, [], {"w": 7}, "x"])
def test_an_index_without_a_map_is_refused(map_of_weights: object, tmp_path: Path) -> None:
    (tmp_path / "a.index.json").write_text(json.dumps({"weight_map": map_of_weights}))
    refused(tmp_path, "has no map of weights to files")


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
        refused(folder, words)
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
    refused(folder, f"{file} is a link that leaves the folder")  # no model: a folder of settings, such as ~/.docker
    (base / "model.safetensors").write_text("")
    check_files(folder, "m")
    (base / file).unlink()
    (base / file).symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("{}")
    refused(folder, f"{file} is a link that leaves the folder")
    (folder / file).unlink()
    (folder / file).symlink_to(base / ("config.json" if file == "tokenizer.json" else "tokenizer.json"))
    refused(folder, f"{file} is a link that leaves the folder")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "vocab.txt", "additional_chat_templates/rag.jinja"])
def test_what_else_a_model_is_read_from_is_no_link_to_elsewhere(file: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = tmp_path / "m"
    (folder / file).parent.mkdir(parents=True)
    (folder / "README.md").symlink_to(tmp_path / "outside")  # which isn't read
    (folder / "merges.txt").symlink_to("README.txt")  # which lies in the folder
    check_files(folder, "m")
    (folder / file).symlink_to(tmp_path / "outside")
    refused(folder, f"{file} is a link that leaves the folder")
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
    refused(snapshot, "a link that leaves the folder")


def test_an_index_names_no_link_to_elsewhere_but_weights(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = _index(tmp_path / "m", "shard")
    (folder / "shard").symlink_to(tmp_path / "outside")
    refused(folder, "index.json names 'shard', a link that leaves the folder")


def test_pipes_in_place_of_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    refused(tmp_path, "model.safetensors is a pipe, not a file")


def test_a_tokenizer_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"fast_tokenizer_files": ["../x/tokenizer.4.0.json"]}))
    refused(tmp_path, "names a file outside the folder")
