"""A model's folder is read, and nothing that its files name elsewhere."""

import json
import os
from pathlib import Path

import pytest

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.folder_files import check_files


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


def test_a_link_out_of_the_folder_is_refused_but_for_the_hubs_own(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = _index(tmp_path / "m", "w.safetensors")
    (folder / "w.safetensors").symlink_to(tmp_path / "outside")
    refused(folder, "a link that leaves the folder")
    snapshot = _index(tmp_path / "hub" / "snapshots" / "abc", "w.safetensors")
    (tmp_path / "hub" / "blobs").mkdir()
    (tmp_path / "hub" / "blobs" / "1f").write_text("x")
    (snapshot / "w.safetensors").symlink_to("../../blobs/1f")
    check_files(snapshot, "m")
    (snapshot / "w.safetensors").unlink()
    (snapshot / "w.safetensors").symlink_to(tmp_path / "outside")
    refused(snapshot, "a link that leaves the folder")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "additional_chat_templates/rag.jinja"])
def test_what_a_model_is_read_from_is_no_link_to_elsewhere(file: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = tmp_path / "m"
    (folder / file).parent.mkdir(parents=True)
    (folder / "README.md").symlink_to(tmp_path / "outside")  # which isn't read
    (folder / "model.bin").symlink_to("notes.txt")  # which lies in the folder
    check_files(folder, "m")
    (folder / file).symlink_to(tmp_path / "outside")
    refused(folder, f"{file} is a link that leaves the folder")
    (folder / file).unlink()
    (folder / file).hardlink_to(tmp_path / "outside")
    check_files(folder, "m")


def test_pipes_in_place_of_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    refused(tmp_path, "model.safetensors is a pipe, not a file")


def test_a_tokenizer_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"fast_tokenizer_files": ["../x/tokenizer.4.0.json"]}))
    refused(tmp_path, "names a file outside the folder")
