"""Count operations and bytes of attention and its KV cache."""

from dataclasses import dataclass, replace
from typing import Literal

from attn_cli.cli.kit.options.command import OutputOptions, shows_report
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.errors import InputError, LoadError
from attn_cli.kept import place_of
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.model.source import about_of
from attn_cli.sources.files.paths import expanded
from attn_cli.sources.numbers import numbers_in
from attn_cli.sources.sizes import Sizes, read_sizes
from attn_cli.summaries.answers.cost import cost_of
from attn_cli.summaries.report import Report

_LONGEST = 10**12
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}


@dataclass(frozen=True)
class SizeOptions:
    """Options for the sizes of attention: a model, and single sizes that replace the model's."""

    model: str | None = option("--model -m MODEL", "Take sizes from a model folder or .gguf file.")
    heads: int | None = option("--heads H", "Set the number of query heads (default: 1).", min=1)
    kv_heads: int | None = option("--kv-heads G", "Set the number of key heads (default: H).", min=1)
    dim: int | None = option("--dim --head-dim D", "Set the head size, width / H (default: 64).", min=1)
    layers: int | None = option("--layers L", "Set the number of layers.", min=1)
    latent: int | None = option("--latent R", "Use latent keys (MLA) of rank R.", min=1)
    window: int | None = option("--window W", "Limit queries to a window of W keys.", min=1)

    def sizes(self) -> Sizes:
        """The sizes of the model, each replaced by its option if given; else options alone."""
        if self.model is not None:
            unpacked = place_of(expanded(self.model)) if self.model.endswith(".gguf") else None
            if self.model.endswith(".gguf") and not (unpacked and unpacked.is_dir()):
                raise LoadError(f"{self.model} is not unpacked yet", f"run attn layers -m {self.model}, or give sizes")
            sizes = read_sizes(str(unpacked or self.model))
        else:
            if self.kv_heads and not self.heads:
                raise InputError("--kv-heads needs --heads", "add --heads H, the query heads that share them")
            heads, dim = self.heads or 1, self.dim or 64
            layer = LayerSizes(heads, heads, dim, dim, heads * dim)
            sizes = Sizes(layer, self.layers or 1, 0, None)
        layer = sizes.layer
        if self.heads is not None and self.heads != layer.heads:
            layer = replace(layer, heads=self.heads, kv_heads=min(layer.kv_heads, self.heads))
        if self.kv_heads is not None:
            layer = replace(layer, kv_heads=self.kv_heads, rank=0, shared=0)
        if layer.heads % layer.kv_heads:
            reason = f"{layer.kv_heads} key heads don't divide {layer.heads} heads"
            raise InputError(reason, "every key head serves as many heads")
        if self.dim is not None:
            layer = replace(layer, d=self.dim, e=self.dim)
        if self.latent is not None:
            shared = layer.d // 2  # of a rotary key part that all heads share, as in DeepSeek-V2
            layer = replace(layer, d=layer.d + shared, rank=self.latent, shared=shared)
        layer = replace(layer, window=self.window or layer.window)
        count = self.layers or sizes.layers
        windowed = count if self.window is not None else min(sizes.windowed, count)
        return Sizes(layer, count, windowed, sizes.dtype, sizes.longest)


@takes_options
@shows_report
def cost(
    *,
    n: str | None = option("--tokens -n N,N,...", "Set lengths (default: the longest). A batch multiplies all."),
    size_options: SizeOptions,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float8"] = option(
        "--dtype DTYPE", "Cache keys and values in auto, float32, bfloat16, float16 or float8.", "auto"
    ),
    output: OutputOptions,
) -> Report:
    """Count operations and bytes of attention and its KV cache.

    Compares multi-head, grouped, latent and windowed keys by their sizes alone. Loads no model.

    \b
    Examples:
      attn cost -n 1000,2000                 one head of 64
      attn cost -n 32000 --heads 32 --kv-heads 8 --dim 128 --layers 32
      attn cost -m ./my-model
      attn cost -n 8192 --heads 128 --dim 128 --latent 512 --json
    """
    if n is None and size_options.model is None:
        example = "try: attn cost -n 32000 --heads 32 --kv-heads 8 --dim 128 --layers 32"
        raise InputError("the length of the text is missing", example)
    lengths = [] if n is None else numbers_in(n, "-n", "such as -n 1000,2000")
    if any(length != int(length) or not 1 <= length <= _LONGEST for length in lengths):
        raise InputError(f"-n {n} is not a length", f"whole numbers from 1 to {_LONGEST:,}")
    sizes = size_options.sizes()
    lengths = lengths or [sizes.longest or 0]
    if not lengths[0]:
        raise InputError(f"{size_options.model} doesn't say how long its texts may be", "give it with -n")
    dtype_name = (sizes.dtype or ("float16" if size_options.model is None else "float32")) if dtype == "auto" else dtype
    itemsize, is_longest = _BYTES.get(dtype_name, 2), n is None
    answer = cost_of(
        sizes.layer, sizes.layers, sizes.windowed, list(map(int, lengths)), itemsize=itemsize, is_longest=is_longest
    )
    return Report("cost", about_of(size_options.model or "what attention takes", "cost", dtype_name), answer=answer)
