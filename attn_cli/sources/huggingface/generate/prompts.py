"""Prompts continued by generated tokens; the result is read by the model like any other prompt."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch

from attn_cli.errors import InputError, LimitError
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sources.huggingface.generate.detokenize import detokenize
from attn_cli.sources.huggingface.generate.greedy import generate
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt, as_arguments
from attn_cli.sources.huggingface.read.positions import position_count
from attn_cli.sources.huggingface.read.reader import without_end
from attn_cli.sources.huggingface.read.tokenize import labels


@dataclass(frozen=True)
class TextGenerator:
    """Continues prompts by the tokens that a model generates.

    most  how many, at most
    """

    loaded: LoadedModel
    most: int

    def continue_text(self, prompt: Prompt, on_token: Callable[[int], None] | None = None) -> Prompt:
        """The prompt with the tokens that the model generates after it; `on_token` is called with each one's count.

        An end token that the tokenizer put after the text is left out, because the text continues.

        Raises LimitError for more than the model has positions, InputError for a prompt without a text.
        """
        loaded = self.loaded
        if isinstance(prompt, ArrayPrompt) and "input_ids" not in prompt.arrays:
            raise InputError(f"{loaded.about['model']} generates after a text, and got none", "leave out --generate")
        prompt = without_end(loaded.tokenizer, prompt)
        count = len(prompt.tokens)
        self._check_limit(count, position_count(loaded.model.config))
        generation = generate(loaded, _arguments(loaded, prompt), self.most, on_token=on_token)
        text, new_tokens = detokenize(loaded.tokenizer, generation.before, generation.ids, prompt.text)
        tokens = (*prompt.tokens, *_numbered(new_tokens, count))
        generated = Generated(text[len(prompt.text) :], len(new_tokens), generation.ended, len(prompt.text))
        longer = replace(prompt, text=text, tokens=tokens, generated=generated)
        return (
            replace(longer, arrays=longer.longer_arrays(generation.ids)) if isinstance(longer, ArrayPrompt) else longer
        )

    def continue_decoder(
        self, prompt: Prompt, decoder: tuple[Token, ...], on_token: Callable[[int], None] | None = None
    ) -> Prompt:
        """The prompt of an encoder-decoder with the tokens that its decoder generates after the tokens `decoder`.

        If `decoder` is the start token alone, the model chooses its start tokens; Whisper's include the language.

        Raises LimitError for more than the decoder has positions.
        """
        loaded = self.loaded
        self._check_limit(len(decoder), position_count(loaded.model.config, decoder=True))
        arguments = _arguments(loaded, prompt)
        start = [token.id for token in decoder]
        if len(start) > 1:
            arguments["decoder_input_ids"] = torch.tensor([start], device=loaded.model.device)
        generation = generate(loaded, arguments, self.most, start[0], on_token)
        if generation.before != tuple(start):
            decoder = labels(loaded.tokenizer, torch.tensor([generation.before]))
        text, new_tokens = detokenize(loaded.tokenizer, generation.before, generation.ids)
        # Their offsets would refer to the generated text, not to the prompt's.
        placeless = tuple(replace(token, start=None, end=None) for token in _numbered(new_tokens, len(decoder)))
        others = {**prompt.others, "decoder": (*decoder, *placeless)}
        return replace(prompt, others=others, generated=Generated(text, len(new_tokens), generation.ended))

    def _check_limit(self, read: int, limit: int | None) -> None:
        """Raise LimitError if `read` tokens of the prompt and the generated ones exceed the `limit` of positions."""
        if limit is not None and read + self.most > limit:
            raise LimitError(
                f"--generate {self.most:,} is too many: of the model's {limit:,} positions {limit - read:,} are free",
                f"--generate {limit - read} at most" if limit > read else "shorten the text",
            )


def _arguments(loaded: LoadedModel, prompt: Prompt) -> dict[str, Any]:
    """The arguments for the forward of the model with its generating head."""
    assert loaded.generating is not None, "loaded without its head"
    if isinstance(prompt, ArrayPrompt):
        return as_arguments(loaded.generating, prompt.arrays, "")
    ids = torch.tensor([[token.id for token in prompt.tokens]], device=loaded.model.device)
    takes_mask = "attention_mask" in signature(loaded.generating.forward).parameters
    return {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if takes_mask else {})


def _numbered(tokens: tuple[Token, ...], first: int) -> tuple[Token, ...]:
    """The tokens numbered from `first` on."""
    return tuple(replace(token, index=index) for index, token in enumerate(tokens, first))
