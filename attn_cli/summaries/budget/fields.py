"""The fields of `attn budget` in tables and JSON."""

from typing import Any

from attn_cli.fields import (
    COUNT,
    FLAG,
    NUMBER,
    POSITIVE,
    SHARE,
    TEXT,
    Field,
    Object,
    Output,
    Rows,
    each,
    or_none,
)

_TEXT = (
    Field("name", TEXT, "the file; empty for the text of the command line"),
    Field("tokens", COUNT),
    Field("scored", COUNT, "the last tokens, whose bits are compared"),
    Field("bits", NUMBER, "bits a scored token, with nothing taken from the cache"),
)


def _unit(name: str) -> Any:
    return lambda row: getattr(row[0], name)


UNIT = (
    Field("taken", {"enum": ["window", "top", "keys", "values"]}, "window: keys behind a window; top: all but the keys "
          "of the highest scores; keys, values: digits", lambda row: row[0].unit.taken),
    Field("layer", COUNT, "the model's own block number", lambda row: row[0].place.layer),
    Field("key_head", or_none(COUNT), "the number of the key head in its layer; null for all of the layer",
          _unit("key_head")),
    Field("bits", NUMBER, "bits a scored token lost with this taken away alone; negative where they gain",
          _unit("bits")),
    Field("spread", POSITIVE, "standard deviation of that over texts; null for fewer than three", _unit("spread")),
    Field("weight_behind", SHARE, "mean weight that its rows give to keys behind the window, with none; null without a "
          "window", _unit("weight_behind")),
    Field("in_plan", or_none(FLAG), "true if the plan takes it away; null without a plan", lambda row: row[1]),
)  # fmt: skip
_ROUNDED = (
    Field("format", TEXT),
    Field("keys", NUMBER, "bits a token lost with all keys rounded"),
    Field("values", NUMBER, "with all values rounded"),
    Field("both", NUMBER, "with both rounded"),
)
_CHECKED = (
    Field("text", Object(_TEXT)),
    Field("bits", NUMBER, "bits a token lost with the plan"),
    Field("error", POSITIVE, "standard error of that mean over scored tokens"),
    Field("by_weight", NUMBER, "with the plan by weight; null where there is none"),
)
_BY_WEIGHT = (
    Field("cache", SHARE, "the cache that is left, as a share"),
    Field("bits", NUMBER, "bits a token that this plan loses, measured by running it"),
)
_PLAN = (
    Field("target_bits", NUMBER, "bits a token that it may lose; null for a plan of a cache's size", "target.bits"),
    Field("target_cache", SHARE, "the share of the cache that it may leave; null for a plan of bits", "target.cache"),
    Field("target_heads", SHARE, "the share of key heads that get a window; null for other plans", "target.heads"),
    Field("is_within", FLAG, "true if the run was within the target"),
    Field("taken", COUNT, "how many units it takes away", lambda priced: int(priced.plan.taken.sum())),
    Field("cache", SHARE, "the cache that is left, as a share of all keys in 16 bits", "plan.cache"),
    Field("predicted", NUMBER, "bits a token lost, as predicted before it was run", "plan.predicted"),
    Field("error", POSITIVE, "bits a token by which sets that were run are missed, each predicted from all others",
          "plan.error"),
    Field("bits", NUMBER, "bits a token that the whole plan loses, measured by running it", "plan.bits"),
    Field("summed", NUMBER, "the sum of its single losses", "plan.summed"),
    Field("by_text", each(NUMBER), "bits a token lost on each text of the sample", lambda x: list(x.by_text)),
    Field("by_weight", Object(_BY_WEIGHT, nullable=True), "a plan of as small a cache that windows the key heads with "
          "the least weight behind the window; null without windows"),
    Field("held", Rows(_CHECKED), "the plan on the end of each text of the sample, which is no part of the sample: its "
          "last tokens, as many as `scored` there; empty where every text is too short"),
    Field("checked", Rows(_CHECKED), "the plan on texts that were no part of the sample"),
)  # fmt: skip
FIELDS = (
    Field("texts", Rows(_TEXT), "the texts of the sample, without what is held back of them"),
    Field("layers", COUNT, "layers that are cached, of those chosen"),
    Field("key_heads", COUNT, "key heads of these layers"),
    Field("bits", NUMBER, "bits a scored token of all texts, with nothing taken from the cache"),
    Field("window", COUNT, "the last keys that a windowed head keeps, a row's own among them", "window.size"),
    Field("first", COUNT, "the first keys that it keeps besides", "window.first"),
    Field("top", or_none(COUNT), "how many keys each query head sees, where that is priced; null otherwise"),
    Field("key_format", TEXT, "the format in which keys of layers are rounded; empty for none", "keys"),
    Field("value_format", TEXT, "the format in which values are rounded; empty for none", "values"),
    Field("noise", POSITIVE, "bits a token by which untouched copies differ from the baseline, at most"),
    Field("passes", POSITIVE, "the work of all runs, in baseline runs of one text"),
    Field("run_mode", {"enum": ["cache", "prefix", "whole"]}, "how runs were made: the scored rows from a KV cache, "
          "passes that skip the blocks below, or whole passes"),
    Field("no_cache_reason", TEXT, "why the cache could not be used; empty where it was"),
    Field("units", Rows(UNIT), "what was taken away, each alone, in the order of the forward pass", "planned"),
    Field("rounded", Rows(_ROUNDED), "keys and values of all layers rounded together"),
    Field("plan", Object(_PLAN, nullable=True), "what can be taken away together; null where none was made"),
)  # fmt: skip
OUTPUT = Output(
    "attn.budget/1",
    "attn budget --json",
    "The price of a smaller KV cache, in bits a scored token.",
    FIELDS,
)
