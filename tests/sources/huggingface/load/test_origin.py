"""Models found by name, and names refused before anything is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from attn_cli.errors import ExitCode, InputError, LoadError
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions, find
from tests.sources.huggingface.folders import edited_config, linked, replaced


def refused(name: str | Path, **options: Any) -> LoadError:
    with pytest.raises(LoadError) as caught:
        find(str(name), OriginOptions(**options))
    assert caught.value.code == ExitCode.LOAD
    assert caught.value.hint
    return caught.value


def test_a_folder_is_local(minilm_folder: Path) -> None:
    origin = find(str(minilm_folder), OriginOptions())
    assert (origin.local, origin.gguf, origin.path) == (True, None, str(minilm_folder))
    assert origin.hub == {"trust_remote_code": False, "local_files_only": True}


def test_a_gguf_file_is_its_folder_and_its_name(smollm_file: Path) -> None:
    origin = find(str(smollm_file), OriginOptions())
    assert (origin.path, origin.gguf) == (str(smollm_file.parent), smollm_file.name)


@pytest.mark.parametrize("name", ["gpt2", "sentence-transformers/all-MiniLM-L6-v2", "org/name.with-dots_2"])
def test_an_id_of_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.sources.huggingface.load.cache.commit_of", lambda *_: "abc")
    assert find(name, OriginOptions()) == Origin(name, name, OriginOptions(), local=False)
    for revision in ("main", "v1.0", "refs/pr/1"):
        found = find(f"{name}@{revision}", OriginOptions())
        assert found == Origin(f"{name}@{revision}", name, OriginOptions(), local=False, revision=revision)
        assert found.hub["revision"] == revision and found.download == f"hf download {name} --revision {revision}"


@pytest.mark.parametrize(
    "name",
    [
        "./nope",
        "/nope/nope",
        "~/nope",
        "a/b/c",
        "nope.gguf",
        "",
        "has space",
        "../x",
        "a//b",
        "./a@b",
        "a/b/c@d",
        "a@",
        "@a",
        "a@b.gguf",
    ],
)
def test_a_path_that_is_not_there_is_no_id(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "no such file or folder" in refused(name).message


def test_a_near_name_is_offered(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    assert refused(tmp_path / "my-modle").hint == f"did you mean {tmp_path / 'my-model'}?"


def test_some_other_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert "is a file" in refused(tmp_path / "notes.txt").message


def test_a_gguf_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"<html>")
    assert "not a GGUF file" in refused(tmp_path / "a.gguf").message


def test_no_config(minilm_folder: Path, tmp_path: Path) -> None:
    folder = linked(minilm_folder, tmp_path / "m", without=("config.json",))
    assert "has no config.json" in refused(folder).message


def test_no_config_but_a_gguf(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert str(tmp_path / "a.gguf") in refused(tmp_path).hint


def test_an_adapter_beside_a_model(minilm_folder: Path, tmp_path: Path) -> None:
    folder = linked(minilm_folder, tmp_path / "m")
    replaced(folder, "adapter_config.json", json.dumps({"base_model_name_or_path": "gpt2"}))
    assert "holds an adapter (adapter_config.json) and a model" in refused(folder).message


@pytest.mark.parametrize(
    "text", ["", "{", '{"model_type": "be', "[1]", "\x00", '{"model_type": ["bert"]}', "[" * 100_000]
)
def test_a_config_that_is_cut_short_or_no_object(minilm_folder: Path, tmp_path: Path, text: str) -> None:
    folder = replaced(linked(minilm_folder, tmp_path / "m"), "config.json", text)
    assert "config.json" in refused(folder).message


def test_no_tokenizer(minilm_folder: Path, tmp_path: Path) -> None:
    files = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
    folder = linked(minilm_folder, tmp_path / "m", without=files)
    assert "no tokenizer" in refused(folder).message


def test_code_of_its_own(minilm_folder: Path, tmp_path: Path) -> None:
    folder = edited_config(linked(minilm_folder, tmp_path / "m"), auto_map={"AutoModel": "code.Model"})
    error = refused(folder)
    assert "config.json: auto_map" in error.message
    assert "--trust-remote-code" in error.hint
    find(str(folder), OriginOptions(trust_remote_code=True))


def test_code_of_its_own_deep_inside(minilm_folder: Path, tmp_path: Path) -> None:
    folder = edited_config(linked(minilm_folder, tmp_path / "m"), vision_config={"inner": [{"auto_map": {}}]})
    assert "vision_config.inner[0]" in refused(folder).message


@pytest.mark.parametrize("key", ["_attn_implementation", "_attn_implementation_internal", "attn_implementation"])
@pytest.mark.parametrize(
    "value", ["someone/kernel", "kernels-community/flash-attn", {"": "someone/kernel"}, ["sdpa"], 1]
)
@pytest.mark.parametrize("trust", [False, True])
def test_a_foreign_attention_kernel(minilm_folder: Path, tmp_path: Path, key: str, value: Any, trust: bool) -> None:
    folder = edited_config(linked(minilm_folder, tmp_path / "m"), **{key: value})
    assert f"config.json: {key}" in refused(folder, trust_remote_code=trust).message
    folder = edited_config(linked(minilm_folder, tmp_path / "n"), text_config={key: value})
    assert f"config.json.text_config: {key}" in refused(folder, trust_remote_code=trust).message


@pytest.mark.parametrize("value", [None, "eager", "sdpa", "flash_attention_2"])
def test_attention_of_transformers_own(minilm_folder: Path, tmp_path: Path, value: str | None) -> None:
    find(str(edited_config(linked(minilm_folder, tmp_path / "m"), _attn_implementation=value)), OriginOptions())


def test_an_unknown_dtype(minilm_folder: Path) -> None:
    with pytest.raises(InputError, match="float12") as caught:
        find(str(minilm_folder), OriginOptions(dtype="float12"))
    assert "bfloat16" in caught.value.hint


def test_a_folder_with_an_at_in_its_name_is_a_folder(minilm_folder: Path, tmp_path: Path) -> None:
    folder = linked(minilm_folder, tmp_path / "m@main")
    origin = find(str(folder), OriginOptions())
    assert (origin.local, origin.path, origin.revision) == (True, str(folder), None)
