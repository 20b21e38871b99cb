"""The two real models, as other tests load them; parts of few documents."""

from tests.scans.corpora import small_parts
from tests.sources.huggingface.conftest import minilm, minilm_folder, smollm, smollm_file

__all__ = ["minilm", "minilm_folder", "small_parts", "smollm", "smollm_file"]
