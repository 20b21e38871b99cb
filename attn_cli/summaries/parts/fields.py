"""The fields of `attn parts` in tables and JSON."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from attn_cli.fields import (
    COUNT,
    FINITE,
    FLAG,
    INTEGER,
    NUMBER,
    SHARE,
    TEXT,
    Field,
    Object,
    Output,
    Rows,
    each,
    or_none,
)


def _number_of_outcome(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: None if row["outcome"] is None else getattr(row["outcome"], name)


_KEY = (
    Field("key", COUNT, "its token index", "token.index"),
    Field("key_token", TEXT, value="token.text"),
)
_TARGET = (
    Field("tokens", Rows((Field("id", or_none(INTEGER), "its number in the vocabulary"), Field("text", TEXT))),
          "the answer's tokens: generated, or given with --answer; else the likeliest next token"),
    Field("probability", SHARE, "the product over all of them"),
    Field("rows", each(COUNT), "the rows that predict them, one for each", lambda target: list(target.rows)),
    Field("generated", FLAG, "true for generated or given tokens, false for the likeliest next token"),
)  # fmt: skip
_HIDDEN = (
    Field("everywhere", FLAG, "true if a part was masked for all rows after it, false for the reading rows alone"),
    Field("noise_floor", NUMBER, "the largest effect of an unmodified copy (rounding); smaller effects than 4 times "
          "that are given as 0", "rounding"),
    Field("run_mode", {"enum": ["cache", "prefix", "whole"]}, "how the model was run again: the reading rows from a KV "
          "cache, or whole passes"),
    Field("no_cache_reason", TEXT, "why the cache could not be used"),
)  # fmt: skip
_NEEDED = (
    Field("part", COUNT, value=itemgetter(0)),
    Field("bits", NUMBER, "change of the answer's log2 p with the part masked", itemgetter(1)),
)
_CITATION = (
    Field("text", TEXT, "the answer"),
    Field("needed", Rows(_NEEDED), "the parts without which it is half as likely or less, most needed first; at least "
          "a quarter of the first's bits"),
    Field("either", each(COUNT), "two parts that replace each other: with one masked it loses less than half of "
          "context_bits, with both half or more; else none", lambda citation: list(citation.either)),
    Field("either_bits", NUMBER, "change of its log2 p with both masked; null without them", "without"),
    Field("context_bits", NUMBER, "change of its log2 p with all parts before the question masked at once; above -1 it "
          "rests on the question or on what the model learned; null where there are fewer than two", "bits"),
)  # fmt: skip
_SINK = (
    *_KEY,
    Field("heads", FINITE | {"minimum": 0, "maximum": 1}, "the share of heads whose sink it is"),
    Field("share", SHARE, "the mean weight that the rows give it"),
)
COLUMNS = (
    Field("part", COUNT, "its place in the text", "number"),
    Field("name", TEXT, "line 3, word 5, the role of a message, or the name in the file of --cut; special for what the "
          "tokenizer added, template for what a chat's template did, rest for what is in no part of the file",
          "read.part.name"),
    Field("text", TEXT, "its text, exactly"),
    Field("start", or_none(INTEGER), "first character in input.text; null for a part that stands for no text",
          "read.part.start"),
    Field("end", or_none(INTEGER), "one past the last character; null likewise", "read.part.end"),
    Field("tokens", COUNT, "how many tokens begin in it", lambda row: len(row["read"].part.tokens)),
    Field("share", NUMBER, "mean over rows, heads and layers of the weights on its tokens, summed; all shares sum to "
          "1, minus the learned sink", "read.share"),
    Field("non_sink_share", NUMBER, "its share of non-sink attention", "read.non_sink_share"),
    Field("vs_uniform", NUMBER, "non_sink_share over its value under uniform attention; null for a part that no row "
          "sees", "read.vs_uniform"),
    Field("hidden_bits", NUMBER, "log2 p(target) with the part masked, minus log2 p(target): negative where the answer "
          "needed it; null without a target", _number_of_outcome("bits")),
    Field("hidden_cosine_distance", NUMBER, "of an encoder: 1 - cosine of the mean vectors with and without the part "
          "masked, the part left out of both; null elsewhere", _number_of_outcome("cosine_distance")),
    Field("direct_logit", NUMBER, "with --by logit: what heads write from its tokens to the logit of the answer, minus "
          "the mean logit; later layers can undo it", optional=True),
)  # fmt: skip
_PART = (
    *COLUMNS,
    Field("kind", {"enum": ["given", "generated", "other"]}, "generated for generated text, other for text between or "
          "around the parts", "read.part.kind"),
    Field("has_queries", FLAG, "true if reading rows belong to this part"),
    Field("is_context", FLAG, "true if it was given before the question, so that an answer may come from it"),
    Field("indices", each(COUNT), "its tokens", lambda row: list(row["read"].part.tokens)),
)  # fmt: skip
FIELDS = (
    Field("cut", TEXT, "how the text was divided: lines, paragraphs, sentences, words, roles, or the file of --cut"),
    Field("stream", TEXT, "the attention that reads the text: self, or cross in an encoder-decoder", "read.stream"),
    Field("queries_from", {"enum": ["last part", "generated", "picked", "all"]}, "the rows that read: those of the "
          "last part, those that predict the generated tokens, those of --token, or all"),
    Field("rows", each(COUNT), "their numbers, ascending", lambda answer: list(answer.read.rows)),
    Field("target", Object(_TARGET, nullable=True), "the answer whose probability masking a part changes; null for an "
          "encoder and a table", lambda answer: None if answer.hidden is None else answer.hidden.target),
    Field("citations", Rows(_CITATION), "what the answer needed; empty without one",
          "cited"),
    Field("hidden", Object(_HIDDEN, nullable=True), "how parts were masked; null where that is impossible, as in a "
          "table"),
    Field("sinks", Rows(_SINK), "attention sinks, and tokens that may be any; non_sink_share and vs_uniform "
          "exclude them", "read.sinks"),
    Field("learned_sink", NUMBER, "the mean weight that the rows give to a learned sink; 0 without one",
          "read.learned_share"),
    Field("excluded", Rows((Field("key", COUNT, "its token index", "index"), Field("key_token", TEXT, value="text"))),
          "tokens that --hide excludes from all parts: their weight counts for no part, and they stay "
          "visible when a part is masked", "read.left_out"),
    Field("visible_weight", SHARE, "the mean weight that the rows give to all other tokens", "read.left"),
    Field("parts", Rows(_PART), "the parts, most needed first, or, without hidden, by non_sink_share; the first part "
          "before the question goes before all others", "table_rows"),
)  # fmt: skip
OUTPUT = Output("attn.parts/2", "The parts of a text that some rows read, and that the answer needed.", FIELDS)
