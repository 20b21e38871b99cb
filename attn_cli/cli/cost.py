"""attn cost: what attention takes, in operations and bytes."""

from dataclasses import replace
from typing import Annotated

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.shared_options import OutputOptions, takes_output
from attn_cli.errors import ExitCode, InputError
from attn_cli.kernel.lessons.cost import Layer
from attn_cli.prompt import Prompt
from attn_cli.sources.sizes import Sizes, read_sizes
from attn_cli.summaries.answers.cost import cost_of
from attn_cli.summaries.report import Report

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}


@takes_output
def cost(
    shown: OutputOptions,
    n: Annotated[int, typer.Option("--tokens", "-n", help="How long the text is.", min=1, metavar="N")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A model folder: sizes from its config.json.", metavar="FOLDER"),
    ] = None,
    heads: Annotated[int | None, typer.Option("--heads", help="Query heads.", min=1, metavar="H")] = None,
    kv_heads: Annotated[
        int | None, typer.Option("--kv-heads", help="Key heads; H if missing.", min=1, metavar="G")
    ] = None,
    dim: Annotated[int | None, typer.Option("--dim", help="Size of a head.", min=1, metavar="D")] = None,
    width: Annotated[
        int | None, typer.Option("--width", help="Of the embeddings; H * D if missing.", min=1, metavar="W")
    ] = None,
    layers: Annotated[int | None, typer.Option("--layers", help="How many.", min=1, metavar="L")] = None,
    latent: Annotated[int | None, typer.Option("--latent", help="Latent keys of rank R.", min=1, metavar="R")] = None,
    rope_dim: Annotated[
        int | None, typer.Option("--rope-dim", help="... with a shared key part of P; D / 2.", min=0, metavar="P")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", help="How many keys a query sees.", min=1, metavar="W")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Texts at once.", min=1, metavar="B")] = 1,
    causal: Annotated[bool, typer.Option("--causal/--both-ways", help="Whether later keys are blocked.")] = True,
    dtype: Annotated[
        str, typer.Option("--dtype", help="Of what is kept: auto, float32, bfloat16, float16, float8.", metavar="DTYPE")
    ] = "auto",
) -> ExitCode:
    """What attention takes: operations and bytes, for plain, grouped, latent and windowed keys.

    Counted from sizes alone; nothing is run and no model is loaded.

    \b
    Examples:
      attn cost -n 32000 --heads 32 --kv-heads 8 --dim 128 --layers 32
      attn cost -n 128000 -m ./my-model
      attn cost -n 8192 --heads 128 --dim 128 --latent 512 --rope-dim 64 --json
    """
    o.one_of(dtype, ("auto", *_BYTES), "--dtype")
    with shown.view() as view:
        sizes = _given(heads, dim, layers, width) if model is None else read_sizes(model)
        sizes = _changed(sizes, heads, kv_heads, dim, layers, width, latent, rope_dim, window)
        kept = (sizes.dtype or ("float16" if model is None else "float32")) if dtype == "auto" else dtype
        itemsize = _BYTES.get(kept, 2)
        found = cost_of(sizes.layer, sizes.layers, sizes.windowed, n, batch=batch, causal=causal, itemsize=itemsize)
        source = {
            "model": model or "what attention takes",
            "type": "cost",
            "revision": None,
            "dtype": kept,
            "device": "none",
        }
        view.show(Report("cost", source, Prompt("", ()), (), finding=found))
    return ExitCode.DONE


def _given(heads: int | None, dim: int | None, layers: int | None, width: int | None) -> Sizes:
    if heads is None or (dim is None and width is None):
        raise InputError("the sizes are missing", "--heads H --dim D --layers L, or -m with a model folder")
    d = dim or (width or 0) // heads
    return Sizes(Layer(heads, heads, d, d, width or heads * d), layers or 1, 0, None)


def _changed(
    sizes: Sizes,
    heads: int | None,
    kv_heads: int | None,
    dim: int | None,
    layers: int | None,
    width: int | None,
    latent: int | None,
    rope_dim: int | None,
    window: int | None,
) -> Sizes:
    """A model's sizes with those that were given instead."""
    layer = sizes.layer
    if heads is not None and heads != layer.heads:
        layer = replace(layer, heads=heads, kv_heads=min(layer.kv_heads, heads))
    if kv_heads is not None:
        layer = replace(layer, kv_heads=kv_heads, rank=0, shared=0)
    if layer.heads % layer.kv_heads:
        raise InputError(
            f"{layer.kv_heads} key heads don't divide {layer.heads} heads", "every key head serves as many heads"
        )
    if dim is not None:
        layer = replace(layer, d=dim, e=dim)
    if latent is not None:
        shared = layer.d // 2 if rope_dim is None else rope_dim
        layer = replace(layer, kv_heads=layer.heads, d=layer.d + shared, rank=latent, shared=shared)
    elif rope_dim is not None:
        raise InputError("--rope-dim is a part of latent keys", "add --latent R")
    layer = replace(layer, width=width or layer.width, window=window or layer.window)
    count = layers or sizes.layers
    windowed = count if window is not None else min(sizes.windowed, count)
    return Sizes(layer, count, windowed, sizes.dtype)
