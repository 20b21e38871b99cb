"""Hugging Face models: loaded safely, run on texts, images and audio, their attention seen in the forward pass.

By the phases of a run: `load` the model, `read` a text into tokens, `generate` more of it, `capture` the attention of
a forward pass. `anatomy` knows the parts of a model, `source` puts the phases together, `failures` explains errors.
"""
