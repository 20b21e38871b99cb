"""The sizes of a model's attention, read from its config.json: no weights."""

from dataclasses import dataclass
from typing import Any

from attn_cli.errors import LoadError
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, read_json
from attn_cli.text import excerpt

# the names of each size in configurations, the preferred one first
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "d": ("head_dim", "d_kv"),
    "window": ("sliding_window",),
    "rank": ("kv_lora_rank",),
    "shared": ("qk_rope_head_dim",),
    "own": ("qk_nope_head_dim",),
    "e": ("v_head_dim",),
    "longest": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model's attention, as its config.json states them."""

    layer: LayerSizes
    layers: int
    windowed: int  # of the layers have a sliding window
    dtype: str | None
    longest: int | None = None  # tokens that the model has positions for


def read_sizes(model: str) -> Sizes:
    """The sizes of attention that a config.json states; LoadError where it states none."""
    path = expanded(model)
    path = path / "config.json" if kind_of_path(path, LoadError) is PathKind.FOLDER else path
    if kind_of_path(path, LoadError) is PathKind.NOTHING:
        raise LoadError(f"no config.json at {model}", "give a model folder, or sizes: --heads, --dim, --layers")
    config = read_json(path, excerpt(str(path)), LoadError, "is it a model's config.json?")
    if not isinstance(config, dict):
        raise LoadError(f"{path} is not an object", "is it a model's config.json?")
    stated, inner = config, config.get("text_config")
    config = config | inner if isinstance(inner, dict) else config
    dtype = config.get("dtype", config.get("torch_dtype"))
    in_some = config.get("sliding_window") and not config.get("layer_types")
    if not _number(config, _NAMES["heads"]) or (in_some and config.get("use_sliding_window") is not False):
        from attn_cli.sources.huggingface.anatomy.configuration import completed  # here: it loads transformers

        config = config | completed(stated)
    of = {size: _number(config, names) for size, names in _NAMES.items()}
    missing = [size for size in ("layers", "heads", "width") if not of[size]]
    if missing:
        raise LoadError(f"{path} doesn't say its {' and '.join(missing)}", "give sizes: --heads, --dim, --layers")
    kv_heads = of["kv_heads"] or (1 if config.get("multi_query") is True else of["heads"])
    d = e = of["d"] or of["width"] // of["heads"]
    shared = of["shared"] if of["rank"] else 0
    if of["rank"]:
        d = (of["own"] or d) + shared
        e = of["e"] or d
    window = of["window"] if config.get("use_sliding_window") is not False else 0
    layer = LayerSizes(of["heads"], kv_heads, d, e, of["width"], of["rank"], shared, window or None)
    kinds = config.get("layer_types")
    windowed = sum(kind == "sliding_attention" for kind in kinds) if isinstance(kinds, list) else of["layers"]
    dtype = dtype if isinstance(dtype, str) else None
    return Sizes(layer, of["layers"], windowed if window else 0, dtype, of["longest"] or None)


def _number(config: dict[str, Any], names: tuple[str, ...]) -> int:
    values = (config.get(name) for name in names)
    return next((number for number in values if isinstance(number, int) and number > 0), 0)
