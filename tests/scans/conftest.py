"""The two real models, as other tests load them."""

from tests.sources.huggingface.conftest import minilm, minilm_folder, smollm, smollm_file

__all__ = ["minilm", "minilm_folder", "smollm", "smollm_file"]
