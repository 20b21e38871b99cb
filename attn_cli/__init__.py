"""attn: look inside any transformer's attention, from a terminal or from Python.

In a notebook, one line each; what they return shows itself, and has rows and arrays:

    import attn_cli
    attn_cli.inspect("he sat on the river bank", model="gpt2")       the overview, as an interactive page
    attn_cli.heads("river bank", model="gpt2").to_pandas()           one row per head, as a data frame
    attn_cli.top("river bank", model="gpt2", token="bank", layers=9)  what "bank" attends to
    attn_cli.matrix("river bank", model="gpt2").arrays["weights"]    [layers, heads, n, m]
    attn_cli.compare("river bank", "bank loan", model="gpt2")        one word in two texts

A model is a name, a folder, a .gguf file, a recording, or (model, tokenizer) of transformers. Below these lines:

    attend(q, k, v, Rule(scale=...))               scaled dot-product attention, every step kept
    open_source("gpt2").each(...)                  a table or a model as a source of attention calls
    capture(model, visit, tokenizer=tokenizer)     the attention of a transformers model in its own forward pass
    reduce(call, TopKeys(5), ...)                  one pass over a call's bands, any number of summaries

Names are imported when they are first used; only models need torch. `attn guide python` has examples.
"""

from attn_cli._version import __version__ as __version__


def __getattr__(name: str) -> object:
    from importlib import import_module  # here, as below: Ctrl-C is not heeded before __main__ has begun

    homes = _homes()
    if name == "__all__":
        return sorted([*homes, "__version__"])
    if name not in homes:
        near = next((f": {each}?" for each in homes if each.endswith(f"_{name}")), "")
        raise AttributeError(f"module 'attn_cli' has no attribute {name!r}{near}")
    value = globals()[name] = getattr(import_module(homes[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])


def _homes() -> dict[str, str]:
    import re
    from pathlib import Path

    stub = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    return {name: home for home, name in re.findall(r"^from (\S+) import (?!_)(\w+) as", stub, re.M)}
