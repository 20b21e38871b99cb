"""Hugging Face models: loading them, running them on texts, images and audio, and capturing their attention.

The packages are the phases of a run: `load` the model, `read` a text into tokens, `generate` more of it, `capture` the
attention of a forward pass, `intervene` in it. `anatomy` finds the parts of a model, `known_types` says what its code
doesn't. `passes` runs texts and shows their layers, `source` answers all else that a model is asked; `failures` words
errors.
"""

import logging
import os

# The GGUF reader's progress bar ignores transformers' setting and isatty; tqdm, which any of the libraries may import
# first, reads this variable at import.
os.environ.setdefault("TQDM_DISABLE", "1")

# What torch thinks of the way in which torchao is written, wherever that is installed.
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
