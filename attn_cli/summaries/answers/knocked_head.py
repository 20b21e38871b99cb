"""One head ablated alone, and the fields of `attn knock` in tables and JSON."""

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from attn_cli.fields import (
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    POSITIVE,
    SHARE,
    STREAM,
    TEXT,
    Field,
    Object,
    Output,
    Rows,
    each,
    or_none,
    within,
)
from attn_cli.model.intervention import HeadPlace, Outcome
from attn_cli.prompt import Token


@dataclass(frozen=True)
class KnockedHead:
    """The effect of ablating one head alone, with the keys that it attends to most.

    kv_head  the number of the key/value head that it reads
    outcome  the change of the answer's log2 p and the like without the head
    top_keys the keys that it attends to most in the rows that choose the answer, with their mean weights
    direct   what its output adds to the logit of the answer, less the mean logit; None where that isn't known
    """

    place: HeadPlace
    kv_head: int
    outcome: Outcome
    top_keys: tuple[tuple[Token, float], ...] = ()
    direct: float | None = None


class HiddenKey(NamedTuple):
    """The key that the most needed head attends to most, masked for all heads in the rows that choose the answer.

    bits  log2 p(answer) with it masked, less log2 p(answer): negative where it was needed
    """

    head: HeadPlace
    token: Token
    bits: float


_NUMBERS = (
    Field("bits", NUMBER, "log2 p(target) with the head ablated, minus log2 p(target); negative where the head helped"),
    Field("kl_bits", POSITIVE, "KL divergence of the whole distribution in the last predicting row"),
    Field("loss_bits", NUMBER, "change of the mean -log2 p of the text's own tokens; with --everywhere"),
    Field("cosine_distance", NUMBER, "1 - cosine of the vectors, of a model without a language-model head"),
)
HEAD = (
    replace(STREAM, value="stream"),
    Field("layer", COUNT, "the model's own block number", "head.place.layer"),
    Field("head", COUNT, "the model's own head number", "head.place.head"),
    Field("kv_head", COUNT, "the key/value head that it reads", "head.kv_head"),
    *within("head.outcome", _NUMBERS),
    Field("direct_logit", NUMBER, "direct contribution of the head to the logit of the target, minus the mean logit; "
          "null where unknown", "head.direct"),
)  # fmt: skip
KEY = (
    Field("key", COUNT, value=lambda read: read[0].index),
    Field("key_token", TEXT, value=lambda read: read[0].text),
    Field("weight", SHARE, "mean over those rows", itemgetter(1)),
)
TOP_KEYS = Field(
    "top_keys", Rows(KEY), "the keys that it attends to most in the predicting rows, heaviest first", "head.top_keys"
)
_TARGET = (
    Field("tokens", Rows((
        Field("id", or_none(INTEGER), value=lambda of: of[0].id),
        Field("text", TEXT, value=lambda of: of[0].text),
        Field("row", COUNT, "the row that predicts it: the one before its own", itemgetter(1)),
    )), value=lambda target: zip(target.tokens, target.rows, strict=True)),
    Field("probability", SHARE, "of the one token, or the product of all, in the baseline run"),
    Field("generated", FLAG, "true for generated tokens; false for the likeliest next token of the last chosen row"),
)  # fmt: skip
_HIDDEN = (
    Field("key", COUNT, value="token.index"),
    Field("key_token", TEXT, value="token.text"),
    Field("bits", NUMBER, "log2 p(target) with it masked, minus log2 p(target)"),
)
_FLOOR = (
    Field("effect", POSITIVE, "of bits, or of distance"),
    Field("kl_bits", POSITIVE),
    Field("loss_bits", POSITIVE),
)
FIELDS = (
    Field("target", Object(_TARGET, nullable=True), "the answer whose probability is compared; null for a model "
          "without a language-model head, whose vector is compared"),
    Field("rows", each(COUNT), "the rows in which heads were ablated", lambda knock: list(knock.rows)),
    Field("everywhere", FLAG, "true if these are all rows"),
    Field("mean", FLAG, "true for mean ablation (over the other rows), false for zero ablation"),
    Field("heads", Rows((*HEAD, TOP_KEYS)),
          "all chosen heads, each ablated alone; the most needed first", "table_rows"),
    Field("together", Object(_NUMBERS, nullable=True), "the same numbers with all chosen heads ablated at once; null "
          "without --together"),
    Field("hidden_key", Object(_HIDDEN, nullable=True), "the key that the most needed head attends to most, masked "
          "in the rows; null where that takes more than those rows", "hidden", optional=True),
    Field("noise_floor", Object(_FLOOR), "the largest effects of unmodified copies (rounding); smaller effects than 4 "
          "times these are given as 0"),
    Field("run_mode", {"enum": ["cache", "prefix", "whole"]}, "how runs were made: the chosen rows from a KV cache, "
          "passes that skip the blocks below, or whole passes"),
    Field("no_cache_reason", TEXT, "why the cache could not be used; empty where it was"),
    Field("no_direct_reason", TEXT, "which check failed, where direct_logit is unknown; empty where it is known"),
    Field("vector", {"enum": ["mean", "first", None]}, "the vector that is compared where the model has no "
          "language-model head: the mean of all tokens, or the first",
          lambda knock: None if knock.target is not None else knock.vector),
)  # fmt: skip
OUTPUT = Output("attn.knock/2", "Each head ablated in turn, and the change of the answer.", FIELDS)
