"""The attention of some rows of a text to each of its parts, and to its sinks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.hidden_keys import HiddenWeight
from attn_cli.summaries.parts.shares import PartShares
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.sinks import HeadSinks
from attn_cli.summaries.text_sinks import sinks_by_heads

NO_WEIGHT = HiddenWeight()


@dataclass(frozen=True)
class ReadSink:
    """A sink of the text: a key that a tenth of the heads rest on, and 3 or more; the first of causal text, special
    tokens.

    A head rests on it if the rows that see it give it over 0.3 of their weight, in the mean, and over 3 times what
    uniform attention would.

    heads  the share of heads whose sink it is, 0 to 1
    share  the mean weight that the rows whose reading is measured give it, over all heads and layers
    """

    token: Token
    heads: float
    share: float


@dataclass(frozen=True)
class ReadPart:
    """A part of the text as some rows attend to it.

    number      its place in the text, from 0
    share       mean over these rows, heads and layers of the weights on its tokens, added up, 0 to 1
    non_sink_share  the weight on its tokens that are no sinks over all that the rows give to such keys; without keys
                    that the user left out
    vs_uniform  `non_sink_share` divided by what it would be if every row gave the same to all keys that it may see
    sinks       the sinks of the text that are in it
    """

    number: int
    part: TextPart
    share: float
    non_sink_share: float
    vs_uniform: float | None
    sinks: tuple[ReadSink, ...]

    @property
    def is_sink(self) -> bool:
        """True if all its tokens are sinks: it is never named as an answer's origin."""
        return 0 < len(self.part.tokens) == len(self.sinks)


@dataclass(frozen=True, eq=False)
class TextReading:
    """The attention of some rows to each part of a text.

    rows           the rows' indices, ascending
    stream         the attention that reads the text: "self", or "cross" in an encoder-decoder
    parts          in the order of the text
    sinks          the sinks of the text, those with the largest share first
    learned_share  the mean weight that the rows gave to a learned sink; 0 where there is none
    head_shares    per attention call its layer and for every head the mean weight on each of S parts `[h, S]`
    left_out       the tokens that the user left out (--hide), which are of no part, ascending
    left           the mean weight that the rows gave to all other tokens; 1 if there is no `left_out` or learned sink
    """

    rows: tuple[int, ...]
    stream: str
    parts: tuple[ReadPart, ...]
    sinks: tuple[ReadSink, ...]
    learned_share: float
    head_shares: tuple[tuple[int, np.ndarray], ...]
    left_out: tuple[Token, ...] = ()
    left: float = 1.0


def shares_read(prompt: Prompt, summaries: Sequence[Summary], hidden: HiddenWeight = NO_WEIGHT) -> TextReading:
    """How much some rows attend to each part of the prompt."""
    pairs = [(s, shares, s.part(HeadSinks)) for s in summaries if (shares := s.part(PartShares)) is not None]
    if not pairs:
        raise InputError("no attention reads the text's tokens here", "attn layers shows what the model's layers read")
    every = [shares for _, shares, _ in pairs]
    heads = sum(len(shares.shares) for shares in every)
    rows = len(every[0].rows)
    shares = np.sum([x.shares.sum(axis=0) for x in every], axis=0) / heads  # [S]
    received = np.sum([x.received for x in every], axis=0) / (heads * max(1, rows))  # [m]
    even = np.sum([x.even for x in every], axis=0) / (heads * max(1, rows))
    of_heads = np.sum([x.reception.is_sink.sum(axis=0) for _, _, x in pairs if x is not None], axis=0)  # [m]
    left, left_out = float(received.sum()), sorted({key for summary, _, _ in pairs for key in summary.hidden})
    of_heads[left_out] = 0
    expected = {key for _, _, x in pairs if x is not None for key in x.expected}
    found = {*sinks_by_heads(of_heads, heads, len(pairs[0][0].queries), expected).tolist(), *expected} - set(left_out)
    order = sorted(found, key=lambda key: -received[key])
    sinks = tuple(ReadSink(prompt.tokens[key], float(of_heads[key] / heads), float(received[key])) for key in order)
    others = np.ones(len(received))
    others[left_out] = 0
    others[[sink.token.index for sink in sinks]] = 0
    rest, even_rest = float(received @ others), float(even @ others)
    read = []
    for number, part in enumerate(every[0].parts):
        places = list(part.tokens)
        own = float(received[places] @ others[places]) / rest if rest else 0.0
        uniform = float(even[places] @ others[places]) / even_rest if even_rest else 0.0
        inside = tuple(sink for sink in sinks if sink.token.index in part.tokens)
        read.append(ReadPart(number, part, float(shares[number]), own, own / uniform if uniform > 0 else None, inside))
    return TextReading(
        every[0].rows,
        pairs[0][0].place.stream,
        tuple(read),
        sinks,
        max(0.0, 1 - left - hidden.share) if any(summary.rule["sink"] for summary, _, _ in pairs) else 0.0,
        tuple((summary.place.layer, x.shares) for summary, x, _ in pairs),
        tuple(prompt.tokens[key] for key in left_out),
        left,
    )
