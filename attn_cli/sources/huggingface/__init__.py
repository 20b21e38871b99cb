"""Hugging Face models: loading them, running them on texts, images and audio, and capturing their attention."""

import logging
import os

# The GGUF reader's progress bar ignores transformers' setting and isatty; tqdm, which any of the libraries may import
# first, reads this variable at import.
os.environ.setdefault("TQDM_DISABLE", "1")

# What torch thinks of the way in which torchao is written, wherever that is installed.
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
