"""Hugging Face models: loading them, running them on texts, images and audio, and capturing their attention."""

import logging
import os

# The GGUF reader's progress bar obeys this variable alone, which tqdm reads at import.
os.environ.setdefault("TQDM_DISABLE", "1")

# What torch thinks of the way in which torchao is written, wherever that is installed.
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
