"""The rotary angles that a model's settings could be mistaken for: without their scaling, with other factors, bases."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from transformers import PreTrainedConfig

from attn_cli.kernel.lessons.mistakes.register import OtherAngles
from attn_cli.sources.huggingface.anatomy.configuration import text_configuration

_BASES = (10_000.0, 500_000.0, 1_000_000.0)  # of the paper and most models; of Llama 3; of Qwen 2 and later


def other_angles(config: PreTrainedConfig, layer: int, pairs: int, d: int) -> list[OtherAngles]:
    """The rotary frequencies that a layer could have by mistake: another base, scaling left out, another width ..."""
    config = text_configuration(config)
    settings = getattr(config, "rope_parameters", None)
    if not isinstance(settings, Mapping) or not pairs:
        return []
    kinds = {name: of for name, of in settings.items() if isinstance(of, Mapping)}
    own, others = settings, []
    if kinds and "rope_theta" not in settings:
        types = getattr(config, "layer_types", None) or []
        name = types[layer] if layer < len(types) else next(iter(kinds))
        own = kinds.get(name, next(iter(kinds.values())))
        others = [(kind, of) for kind, of in kinds.items() if kind != name]
    angles = list(_of_settings(own, pairs, d))
    for kind, of in others:
        base = float(of.get("rope_theta", _BASES[0]))
        words = f"the layer was given the rotary positions of {kind.replace('_', ' ')} layers, base {base:,.0f}"
        angles.append(OtherAngles("rotary-of-other-layers", words, _plain(base, pairs)))
    return angles


def _of_settings(settings: Mapping[str, Any], pairs: int, d: int) -> Iterator[OtherAngles]:
    base, kind = float(settings.get("rope_theta") or _BASES[0]), str(settings.get("rope_type", "default"))
    plain = _plain(base, pairs)
    if kind != "default":
        factor = settings.get("factor")
        detail = f" {factor:g}" if isinstance(factor, int | float) else ""
        words = f"rope scaling is missing: {kind}{detail} was not applied"
        if kind == "longrope":
            words = "rope scaling is missing: the factors of longrope were not applied"
        yield OtherAngles("rope-scaling-missing", words, plain)
        if isinstance(factor, int | float) and kind != "linear":
            words = f"rope scaling is of the wrong type: linear, by {factor:g}, where the model has {kind}"
            yield OtherAngles("rope-scaling-type", words, plain / factor)
        if isinstance(factor, int | float) and kind == "linear":
            yield OtherAngles(
                "rope-scaling-inverted", f"positions were multiplied by {factor:g}, not divided", plain * factor
            )
        size = float(settings.get("attention_factor") or _longrope_size(settings))
        if kind == "longrope":
            yield OtherAngles("rope-scaling-missing", f"{words}, its attention factor was", plain, size)
        for name in ("short_factor", "long_factor"):
            factors = settings.get(name)
            if isinstance(factors, list | tuple) and len(factors) == pairs:
                words = f"the {name} of longrope was chosen, by the wrong length"
                yield OtherAngles(f"rope-{name.replace('_', '-')}", words, plain / np.array(factors), size)
    for other in _BASES:
        if other != base:
            words = f"the base of rotary positions is {other:,.0f}, the model's is {base:,.0f}"
            yield OtherAngles("rotary-base", words, _plain(other, pairs))
    if 2 * pairs < d:
        words = f"all {d} columns were rotated, the model rotates {2 * pairs}"
        yield OtherAngles("rotary-width", words, _plain(base, d // 2))
    elif pairs > 1:
        words = f"half of the columns were rotated, the model rotates all {d}"
        yield OtherAngles("rotary-width", words, _plain(base, pairs // 2))


def _plain(base: float, pairs: int) -> np.ndarray:
    return base ** (-np.arange(pairs) / pairs)


def _longrope_size(settings: Mapping[str, Any]) -> float:
    factor, original = settings.get("factor"), settings.get("original_max_position_embeddings")
    if not isinstance(factor, int | float) or not original or factor <= 1:
        return 1.0
    return float(np.sqrt(1 + np.log(factor) / np.log(original)))
