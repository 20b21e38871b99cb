"""Models of images and audio, each made once, when a test first asks for it."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    from tests.media import KINDS  # here: it loads transformers

    place = tmp_path_factory.mktemp("seeing")

    def folder(kind: str) -> Path:
        return place / kind if (place / kind).exists() else KINDS[kind](place / kind)

    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with random weights and its LM head: 2 layers of 4 heads."""
    from tests.architectures.tiny import tiny_model  # here: they load transformers
    from tests.media import tokenizer

    folder = tmp_path_factory.mktemp("tiny") / "llama"
    tiny_model("llama", "tiny").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
