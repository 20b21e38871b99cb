"""The rows of a text that interventions change, those that choose what comes next, and what is read of these."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import torch

from attn_cli.errors import InputError
from attn_cli.model.intervention import Target
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.intervene.readout import Readout
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.detokenize import detokenize


class AskedRows:
    """The rows of n tokens in which interventions hold, and the rows whose next token is the answer.

    rows       in which interventions hold, ascending: those given, all with `everywhere`, else `choosing`
    generated  the indices of the tokens that the model generated
    choosing   the rows that choose these, one before each; without any, the last row
    """

    def __init__(
        self, loaded: LoadedModel, tokens: Sequence[Token], rows: Sequence[int] | None, *, everywhere: bool
    ) -> None:
        self.loaded, self.tokens = loaded, tokens
        n = len(tokens)
        self.generated = [token.index for token in tokens if token.generated and token.index > 0]
        self.choosing = tuple(index - 1 for index in self.generated) or (n - 1,)
        self.rows = tuple(range(n)) if everywhere else self.choosing
        if rows is None or everywhere:
            return
        if not rows or min(rows) < 0 or max(rows) >= n:
            raise InputError(f"rows {list(rows)} of a text of {n} tokens", f"there are rows 0 to {n - 1}")
        self.rows = tuple(sorted(set(rows)))

    def readout(self, logits: torch.Tensor, start: int) -> Readout:
        """The answer's tokens and the rows that choose them: what was generated, else the likeliest next token.

        logits  `[1, rows, words]` of the baseline's rows from `start` on, whose last one says the likeliest
        """
        everywhere = len(self.rows) == len(self.tokens)
        ids = [token.id for token in self.tokens]
        text = tuple(id for id in ids if id is not None) if everywhere and None not in ids else None
        if self.generated:
            target = tuple(int(ids[index] or 0) for index in self.generated)
            return Readout(target, self.choosing, self.choosing[-1], text)
        last = self.rows[-1]
        return Readout((int(logits[0, last - start].argmax()),), (last,), last, text)

    def target(self, readout: Readout, log_p: float) -> Target:
        """The tokens whose probability is asked for, and that probability, whose natural logarithm is `log_p`."""
        tokens = tuple(self.tokens[index] for index in self.generated) or (self.chosen(readout.ids[0], readout.last),)
        return Target(tokens, exp(log_p), readout.rows, bool(self.generated), -log_p / log(2))

    def chosen(self, id: int, row: int) -> Token:
        """The token that the vocabulary has under `id`, decoded as it would follow the tokens up to `row`."""
        before = [token.id for token in self.tokens[: row + 1] if token.id is not None]
        _, (token,) = detokenize(self.loaded.tokenizer, before, (id,), "")
        return replace(token, generated=False)
