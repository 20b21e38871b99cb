"""The rows of a text that interventions change, those that choose what comes next, and what is read of these."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp

import torch

from attn_cli.errors import InputError
from attn_cli.model.intervention import Intervention, Target
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch
from attn_cli.sources.huggingface.intervene.readout import Readout
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.detokenize import detokenize


class AskedRows:
    """The rows of n tokens in which interventions (ablated heads, hidden tokens) hold, and those that choose an answer.

    tokens      those of the prompt, n; of an encoder-decoder its decoder's
    in_text     how many tokens the prompt itself has: those that can be hidden
    everywhere  whether interventions hold in all rows; always where the model has no LM head
    rows        in which they hold, ascending: those given, all if `everywhere`, else `choosing`
    generated   the indices of the tokens that the model generated
    choosing    for each of these the row before it, which predicts it; the last row if none was generated
    first       the first row that has to run: interventions hold, or the answer is read, from there on

    Raises InputError for given rows that the text doesn't have.
    """

    def __init__(self, loaded: LoadedModel, prompt: Prompt, rows: Sequence[int] | None, *, everywhere: bool) -> None:
        self.loaded, self.tokens = loaded, prompt.others.get("decoder", prompt.tokens)
        self.in_text, n = len(prompt.tokens), len(self.tokens)
        self.everywhere = everywhere or loaded.generating is None
        self.generated = [token.index for token in self.tokens if token.generated and token.index > 0]
        self.choosing = tuple(index - 1 for index in self.generated) or (n - 1,)
        self.rows = tuple(range(n)) if self.everywhere else self.choosing
        if rows is not None and not self.everywhere:
            if not rows or min(rows) < 0 or max(rows) >= n:
                raise InputError(f"rows {list(rows)} of a text of {n} tokens", f"there are rows 0 to {n - 1}")
            self.rows = tuple(sorted(set(rows)))
        self.first = min(*self.rows, *self.choosing) if self.generated else self.rows[0]

    @property
    def rows_if_some(self) -> tuple[int, ...] | None:
        """The rows in which interventions hold; None for all: all rows of a decoder are not all of its encoder's."""
        return None if self.everywhere else self.rows

    def first_of(self, intervention: Intervention) -> int:
        """The first row that an intervention changes or that the answer is read from, whichever comes first."""
        return self.first if intervention.rows is None else min(self.first, *intervention.rows)

    def batch(self, interventions: Sequence[Intervention], first: int) -> InterventionBatch:
        """These interventions as the elements of one batch, for a run of the text's rows from `first` on."""
        return InterventionBatch(interventions, self.rows_if_some, self.in_text, first=first)

    def readout(self, logits: torch.Tensor) -> Readout:
        """The answer's tokens and the rows that choose them: the generated tokens, or without any the likeliest one."""
        everywhere = len(self.rows) == len(self.tokens)
        ids = [token.id for token in self.tokens]
        text = tuple(id for id in ids if id is not None) if everywhere and None not in ids else None
        if self.generated:
            target = tuple(int(ids[index] or 0) for index in self.generated)
            return Readout(target, self.choosing, self.choosing[-1], text)
        last = self.rows[-1]
        return Readout((int(logits[0, last - len(self.tokens)].argmax()),), (last,), last, text)

    def target(self, readout: Readout, likeliest: Token, log_p: float) -> Target:
        """The answer: its tokens, the rows that choose them, and its probability, the exponential of `log_p`."""
        tokens = tuple(self.tokens[index] for index in self.generated) or (likeliest,)
        return Target(tokens, exp(log_p), readout.rows, bool(self.generated))

    def chosen(self, id: int, row: int) -> Token:
        """The vocabulary's token `id`, with its text as it would follow the tokens up to `row`, that one included."""
        before = [token.id for token in self.tokens[: row + 1] if token.id is not None]
        _, (token,) = detokenize(self.loaded.tokenizer, before, (id,), "")
        return replace(token, generated=False)
