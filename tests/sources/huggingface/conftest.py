"""The two real models, loaded once, by the loader that the commands use."""

from pathlib import Path

import pytest

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.loaded import load_once
from tests.real_models import MINILM, SMOL


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    return MINILM


@pytest.fixture(scope="session")
def smollm_file() -> Path:
    return SMOL


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> LoadedModel:
    """A BERT encoder: 6 layers of 12 heads, no mask."""
    return load_once(find(str(minilm_folder), OriginOptions()))


@pytest.fixture(scope="session")
def smollm(smollm_file: Path) -> LoadedModel:
    """A Llama decoder: 30 layers, 9 query heads over 3 key heads, causal."""
    return load_once(find(str(smollm_file), OriginOptions()))


@pytest.fixture(params=["minilm", "smollm"])
def real(request: pytest.FixtureRequest) -> LoadedModel:
    """Each of the two in turn."""
    loaded: LoadedModel = request.getfixturevalue(request.param)
    return loaded
