"""The run mode of `attn knock` for a type: from the KV cache, or why not; compared with whole passes.

cache    the last row alone, with the keys and values of the rows before it
prefix   whole passes that skip the blocks below the ablated head; after it why not from the cache
whole    whole passes; after it why
no       no head can be ablated; after it why
"""

import math

from transformers import PreTrainedModel

from attn_cli.errors import AttnError
from attn_cli.model.intervention import Change
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.intervene.experiment import ModelExperiment
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.model_classes import stack_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.inputs import Inputs

SAME = 1e-4  # bits


def knock_from_cache(model: PreTrainedModel, inputs: Inputs) -> str:
    """The way in which heads of a type that chooses next tokens are ablated; "" for a type that doesn't."""
    if not model.can_generate():
        return ""
    source = speaking(model)
    try:
        return _way(source.experiment(prompt_of(inputs)))
    except AttnError as error:
        return f"no: {error.message}"
    except Exception as error:  # of any type; it is the model's own code that failed
        return f"no: {type(error).__name__}"


def prompt_of(inputs: Inputs) -> Prompt:
    ids = inputs.get("decoder_input_ids")
    others = {} if ids is None or ids.ndim != 2 else {"decoder": labels(None, ids[0].tolist())}
    return Prompt("", labels(None, inputs["input_ids"][0].tolist()), others=others)


def speaking(model: PreTrainedModel) -> ModelSource:
    kind = str(model.config.model_type)
    stack = stack_of(model, model.config)
    origin = Origin(kind, kind, OriginOptions())
    return ModelSource(LoadedModel(stack, None, {"model": kind, "type": kind}, origin, model))


def _way(experiment: ModelExperiment) -> str:
    """The way of an experiment, and how far from whole passes it leads, if it does."""
    heads = [head for layer in experiment.layers for head in layer.heads][:: max(1, len(experiment.layers))]
    interventions = [Change((head,)) for head in heads]
    bits = [outcome.bits or 0.0 for outcome in experiment.outcomes(interventions)]
    if any(map(math.isnan, bits)):
        return "no: the tiny model's own numbers are NaN"
    words = (
        experiment.run_mode
        if experiment.run_mode == "cache"
        else f"{experiment.run_mode}: {experiment.no_cache_reason}"
    )
    if experiment.run_mode == "whole":
        return words
    experiment.no_cache_reason, experiment._without_cache = "whole passes are the measure", "whole"
    apart = max(abs(a - (b.bits or 0.0)) for a, b in zip(bits, experiment.outcomes(interventions), strict=True))
    return words if apart <= SAME else f"{words}, differs {apart:.0e}"
