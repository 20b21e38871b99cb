"""The mistakes in a model's modules beside attention's arithmetic; made by hooks."""

from transformers import PreTrainedModel

from attn_cli.sources.huggingface.stations.changes import ModuleMistake
from attn_cli.sources.huggingface.stations.end_mistakes import mistakes_of_embeddings, mistakes_of_logits
from attn_cli.sources.huggingface.stations.mlp_mistakes import mistakes_of_experts, mistakes_of_mlps
from attn_cli.sources.huggingface.stations.norm_mistakes import mistakes_of_norms
from attn_cli.sources.huggingface.stations.projection_mistakes import mistakes_of_biases, mistakes_of_projections
from attn_cli.sources.huggingface.stations.rotary_tables import mistakes_of_tables
from attn_cli.sources.huggingface.stations.sites import Sites


def module_mistakes(model: PreTrainedModel, whole: PreTrainedModel | None, sites: Sites) -> list[ModuleMistake]:
    """Every mistake known to attn that can be made in the modules of this model, beside attention's own arithmetic.

    whole  the model with its LM head; None without one
    sites  which modules of the model are norms, attention, MLP ..., by layer
    """
    return [
        *mistakes_of_norms(sites),
        *mistakes_of_biases(sites),
        *mistakes_of_projections(sites),
        *mistakes_of_tables(model, sites),
        *mistakes_of_mlps(sites),
        *mistakes_of_experts(sites),
        *mistakes_of_embeddings(model, sites),
        *mistakes_of_logits(model, whole, sites),
    ]
