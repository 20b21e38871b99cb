"""The columns of all tables: what each name means, how its values are typed, headed and rounded."""

from collections.abc import Mapping
from typing import NamedTuple

from attn_cli.fields import COSINE, COUNT, FLAG, INTEGER, NUMBER, POSITIVE, SHARE, TEXT, Schema, or_none


class Column(NamedTuple):
    """What values of one name are, with their unit; `heading` and `format` are those of a screen."""

    type: Schema
    meaning: str
    heading: str = ""
    format: str = ""


COLUMNS: Mapping[str, Column] = {
    "stream": Column(TEXT, "which attention it is (self, encoder, decoder, cross), where a model has several"),
    "layer": Column(COUNT, "the model's own block number"),
    "head": Column(COUNT, "the model's own head number"),
    "kv_head": Column(COUNT, "the key/value head that the head reads"),
    "row": Column(COUNT, "a row of attention: the index of its query; it predicts the token after it"),
    "key": Column(or_none(COUNT), "the key's token index"),
    "token": Column(TEXT, "the token's text"),
    "key_token": Column(or_none(TEXT), "the key's text", "attends to"),
    "id": Column(or_none(INTEGER), "the token's number in the vocabulary"),
    "weight": Column(SHARE, "weight on the key, mean over the rows that choose the answer", "weight", ".2f"),
    "probability": Column(SHARE, "of the answer: of its one token, or the product of all", "p", ".3g"),
    "bits": Column(NUMBER, "change of the answer's log2 p; below 0 where it was needed", "bits", "+.2f"),
    "kl_bits": Column(POSITIVE, "KL divergence of all next tokens' probabilities in the last predicting row, in bits"),
    "loss_bits": Column(NUMBER, "change of the mean -log2 p of the text's own tokens", "loss", "+.3f"),
    "cosine_distance": Column(NUMBER, "1 - cosine of the text's vectors with and without it", "1 - cos", ".4f"),
    "direct_logit": Column(
        NUMBER, "what the head itself adds to the answer's logit, less the mean logit", "direct", "+.2f"
    ),
    "generated": Column(or_none(FLAG), "whether the model wrote the answer; else it is the likeliest next token"),
    "everywhere": Column(FLAG, "whether all rows were changed"),
    "mean": Column(FLAG, "mean ablation, over the other rows; else zero ablation"),
    "vector": Column(or_none(TEXT), "which vectors are compared: the mean of all tokens' (mean), or the first"),
    "run_mode": Column(TEXT, "how runs were made: cache (chosen rows alone), prefix (later blocks alone) or whole"),
    "no_cache_reason": Column(TEXT, "why the cache could not be used; empty where it was"),
    "no_direct_reason": Column(TEXT, "which check failed, where direct_logit is unknown; empty where it is known"),
    "noise": Column(POSITIVE, "largest effect of an unchanged copy of the run, which is rounding"),
    "rank": Column(COUNT, "place in the order of the table, 0 for the first"),
    "word": Column(TEXT, "the word, as its table writes it"),
    "cosine": Column(COSINE, "cosine of its vector and the signed sum of the query's unit vectors", "cosine", ".3f"),
    "sign": Column(INTEGER, "1 for a word that is added, -1 for one that is taken away"),
    "variant": Column(TEXT, "the kind of KV cache, with its sizes", "KV cache"),
    "requested": Column(FLAG, "whether these are the sizes that were asked for"),
    "kv_heads": Column(or_none(COUNT), "key/value heads; null for latents", "kv", "d"),
    "latent_size": Column(or_none(COUNT), "numbers of a latent; null for none"),
    "window": Column(or_none(COUNT), "keys that a query sees; null for all"),
    "cache_bytes": Column(COUNT, "bytes of the KV cache of all layers after all tokens", "cache", "bytes"),
    "matrix_operations": Column(COUNT, "operations of scores and mixing, all layers", "whole text", "magnitude"),
    "next_token_operations": Column(COUNT, "operations on one more token, all layers", "next token", "magnitude"),
    "next_token_matrix_operations": Column(COUNT, "those of them that are scores and mixing"),
    "part": Column(TEXT, "a part of attention: projections, scores, softmax or mixing", "part"),
    "operations": Column(COUNT, "multiplications and additions on the whole text", "operations", "magnitude"),
    "share": Column(SHARE, "share of the total", "share", ".1%"),
    "tokens": Column(COUNT, "tokens of a text"),
    "batch": Column(COUNT, "texts at once"),
    "layers": Column(COUNT, "layers of attention"),
    "windowed_layers": Column(COUNT, "layers whose queries see a window"),
    "heads": Column(COUNT, "query heads", "heads", "d"),
    "head_size": Column(COUNT, "numbers of a query or key"),
    "value_size": Column(COUNT, "numbers of a value"),
    "width": Column(COUNT, "numbers of an embedding"),
    "causal": Column(FLAG, "whether later keys are masked"),
    "bytes_per_number": Column(COUNT, "bytes of a cached number"),
    "matrix_bytes_per_layer": Column(COUNT, "bytes of all weights of a layer in float32"),
    "matrix_bytes": Column(COUNT, "the same of all layers"),
    "band_bytes": Column(COUNT, "bytes of weights that attn holds at a time"),
    "band_heads": Column(COUNT, "heads of these weights"),
    "band_rows": Column(COUNT, "rows of these weights"),
    "mixer": Column(TEXT, "softmax attention, or what a block has instead: Mamba, linear attention ...", "mixes by"),
    "name": Column(TEXT, "its name: of a module its path in the model"),
    "way": Column(or_none(TEXT), "how it was seen: computed, registry, softmax, sdpa, dispatch or returned"),
    "calls": Column(COUNT, "how often it ran in one forward pass", "calls", "d"),
    "scale": Column(NUMBER, "factor on q kᵀ; null where only weights were seen", "scale", ".4g"),
    "mask": Column(or_none(TEXT), "which keys a query may attend to, in words", "mask"),
    "softcap": Column(NUMBER, "scores stay below it, by a tanh; null without", "softcap", "g"),
    "bias": Column(or_none(FLAG), "whether numbers are added to scores", "bias"),
    "sink": Column(or_none(FLAG), "whether a learned sink takes a share of every row", "sink"),
    "note": Column(or_none(TEXT), "why softmax attention showed nothing: it did not run, and what it needs"),
    "blocks": Column(TEXT, "the numbers of blocks that are alike, with their stack where there are several", "layer"),
    "fact": Column(TEXT, "what is told of this installation"),
    "value": Column(TEXT, "its value; set, where it may hold a password"),
    "package": Column(TEXT, "a library that attn needs, as pip knows it"),
    "version": Column(or_none(TEXT), "its version; null for one that is missing"),
    "device": Column(TEXT, "what --device takes; the first is what auto takes"),
    "cores": Column(or_none(COUNT), "cores that attn may use", "cores", "d"),
    "threads": Column(or_none(COUNT), "threads that torch uses, if it was asked", "threads", "d"),
    "bytes": Column(or_none(COUNT), "bytes in memory or on disk", "size", "decimal"),
    "extra": Column(TEXT, "what attn can be installed with"),
    "missing": Column(TEXT, "its packages that are not installed, with commas"),
    "install": Column(TEXT, "the command that installs it, or installed", "install"),
    "variable": Column(TEXT, "an environment variable that is set and heeded"),
    "model": Column(TEXT, "what --model takes"),
    "kept": Column(TEXT, "what is kept for a second look: runs, or unpacked models"),
    "count": Column(COUNT, "how many", "count", "d"),
    "most_bytes": Column(COUNT, "bytes that they may take; the least recently used go", "at most", "decimal"),
    "folder": Column(TEXT, "where they are"),
}
