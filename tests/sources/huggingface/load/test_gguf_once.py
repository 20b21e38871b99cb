"""The quick way of reading a .gguf file gives what transformers' own way gives."""

import gguf
import numpy as np
import pytest

from attn_cli.sources.huggingface.load.gguf_once import read_once


@pytest.fixture
def small_file(tmp_path) -> str:
    path = str(tmp_path / "small.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_token_list(["a", "bé", "🙂"])
    writer.add_token_scores([0.5, 1.0, -2.0])
    writer.add_tensor("token_embd.weight", np.arange(6, dtype=np.float32).reshape(3, 2))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_fields_and_tensors_are_the_same(small_file: str) -> None:
    usual = gguf.GGUFReader(small_file)
    with read_once():
        quick = gguf.GGUFReader(small_file)
    assert quick.fields.keys() == usual.fields.keys()
    for name, field in usual.fields.items():
        assert quick.fields[name].contents() == field.contents()
    for ours, theirs in zip(quick.tensors, usual.tensors, strict=True):
        assert ours.name == theirs.name
        np.testing.assert_array_equal(ours.data, theirs.data)


def test_a_file_is_parsed_once_and_the_reader_put_back(small_file: str) -> None:
    before = gguf.GGUFReader, gguf.get_tensor_name_map
    with read_once():
        assert gguf.GGUFReader(small_file) is gguf.GGUFReader(small_file)
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
        assert names.get_name("model.embed_tokens") == "token_embd"
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == before
