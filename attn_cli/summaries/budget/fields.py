"""The fields of `attn budget` in tables and JSON."""

from attn_cli.summaries.fields import COUNT, NUMBER, POSITIVE, SHARE, TEXT, Field, Rows, or_none

HEAD = (
    Field("layer", COUNT, "the model's own block number", "place.layer"),
    Field("key_head", or_none(COUNT), "the number of the key head in its layer; null for all heads of a layer with "
          "latent keys", lambda priced: None if priced.cached.key_heads is None else priced.place.head),
    Field("bits", NUMBER, "bits a scored token lost with the window on this key head alone; negative where it gains"),
    Field("weight_behind", SHARE, "mean weight that its rows give to keys behind the window, with none"),
    Field("keys", COUNT, "keys that its last row sees, which is what is cached of it", "cached.keys"),
)  # fmt: skip
FIELDS = (
    Field("tokens", COUNT, "tokens of the text"),
    Field("scored", COUNT, "the last tokens of the text, whose bits are compared"),
    Field("bits", NUMBER, "bits a scored token, with nothing taken from the cache"),
    Field("window", COUNT, "the last keys that a windowed head keeps, a row's own among them", "window.size"),
    Field("first", COUNT, "the first keys that it keeps besides", "window.first"),
    Field("noise", POSITIVE, "bits a token by which untouched copies differ from the baseline, at most"),
    Field("passes", POSITIVE, "the work of all runs, in baseline runs"),
    Field("run_mode", {"enum": ["cache", "prefix", "whole"]}, "how runs were made: the scored rows from a KV cache, "
          "passes that skip the blocks below, or whole passes"),
    Field("no_cache_reason", TEXT, "why the cache could not be used; empty where it was"),
    Field("heads", Rows(HEAD), "the chosen key heads, in the order of the forward pass"),
)  # fmt: skip
