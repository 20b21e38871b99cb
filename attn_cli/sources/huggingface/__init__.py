"""Hugging Face models: loading them, running them on texts, images and audio, and capturing their attention.

The phases of a run: `load`, `read` a text into tokens, `generate`, `capture` attention, `intervene`. `anatomy` finds
the parts of a model, `known_types` says what its code doesn't, `passes` shows texts' layers.
"""

import logging
import os

# The GGUF reader's progress bar ignores transformers' setting and isatty; tqdm, which any of the libraries may import
# first, reads this variable at import.
os.environ.setdefault("TQDM_DISABLE", "1")

# What torch thinks of the way in which torchao is written, wherever that is installed.
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
