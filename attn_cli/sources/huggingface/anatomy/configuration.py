"""Statements of configurations for which transformers may raise: of several stacks of text, or by layer."""

from transformers import PreTrainedConfig


def text_configuration(config: PreTrainedConfig, *, decoder: bool = False) -> PreTrainedConfig:
    """The configuration of the stack that reads text; of the decoder if asked for and where there is one.

    Of a model with a text encoder and a decoder of something else, as MusicGen's, it is the encoder's.
    """
    try:
        return config.get_text_config(decoder=decoder or None)
    except ValueError:  # several stacks of text, and transformers wants to know which
        return config.get_text_config(decoder=decoder, encoder=not decoder)


def number_of(config: PreTrainedConfig | None, name: str) -> int | None:
    """The whole number that a configuration states under `name`; None for none, or one for each layer.

    >>> number_of(PreTrainedConfig(num_hidden_layers=2), "num_hidden_layers")
    2
    """
    try:
        number = getattr(config, name, None)
    except RuntimeError:  # it differs between layers, and transformers wants to be asked for each
        return None
    return number if isinstance(number, int) else None
