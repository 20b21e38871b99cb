"""How many tokens a model can read, by the number of its positions."""

from transformers import PreTrainedConfig, PreTrainedModel

from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.known_types import type_of


def position_count(model: PreTrainedModel, *, decoder: bool = False) -> int | None:
    """How many positions the model, or its decoder, has a place for; None where positions are unlimited."""
    return positions_of(model.config, decoder=decoder)


def positions_of(config: PreTrainedConfig, *, decoder: bool = False) -> int | None:
    """As `position_count`, by the model's configuration."""
    config = text_configuration(config, decoder=decoder)
    more = ("max_target_positions",) if decoder else ()
    for name in (*more, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        if (value := number_of(config, name) or 0) > 0:
            padding = counted_from(config)
            return value if padding is None else value - padding - 1
    return None


def counted_from(config: PreTrainedConfig) -> int | None:
    """The padding token from whose number on the model counts positions; None where they begin at 0."""
    return getattr(config, "pad_token_id", 0) or 0 if type_of(config).positions_from_padding else None
