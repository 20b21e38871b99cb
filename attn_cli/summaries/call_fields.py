"""Fields that outputs of attention calls have in common: a call's place and rule; layer, head, query, key of a row."""

from typing import Any

from attn_cli.fields import COUNT, FLAG, NUMBER, SHARE, TEXT, Field, Object, Rows, Schema, each, or_none

HEAD_OR_MEAN: Schema = {"oneOf": [COUNT, {"const": "mean"}]}

LAYER = Field("layer", COUNT, "the model's own block number")
HEAD = Field("head", COUNT, "the model's own head number")
KV_HEAD = Field("kv_head", COUNT, "the key/value head that it reads")
HEAD_OF_MEAN = Field("head", HEAD_OR_MEAN, 'the model\'s own head number, or "mean" for a mean over heads')
QUERY = Field("query", COUNT, "the query's token index")
QUERY_TOKEN = Field("query_token", TEXT)
KEY = Field("key", COUNT, "the key's token index")
KEY_TOKEN = Field("key_token", TEXT)
VALUE_SHARE = Field(
    "value_share", SHARE, "with --by value: weight times value norm, as a share of the row's sum", optional=True
)
OUTPUT_SHARE = Field(
    "output_share",
    SHARE,
    "with --by output: weight times the norm of the value after W_O, as a share of the row's sum",
    optional=True,
)
SHARE_BY = {"value": VALUE_SHARE, "output": OUTPUT_SHARE}  # what ranks keys, where it isn't the weight


def _in_rule(name: str, kind: Schema, meaning: str, *, optional: bool = False) -> Field:
    def value(rule: Any) -> Any:
        return rule.get(name)

    return Field(name, kind, meaning, value, optional)


RULE = Field(
    "rule",
    Object(
        (
            _in_rule("scale", NUMBER, "factor on q kᵀ; null, like bias and sink, where only the model's own code knows "
                     "the rule"),
            _in_rule("softcap", NUMBER, "scores become softcap * tanh(score / softcap); null for none"),
            _in_rule("bias", or_none(FLAG), "true if numbers are added to the scores"),
            _in_rule("mask", TEXT, "the mask in words"),
            _in_rule("sink", or_none(FLAG), "true if a learned sink takes a share of every row"),
            _in_rule("softmax", FLAG, "false: the scores are the weights, not normalised", optional=True),
        )
    ),
    "how q kᵀ becomes weights, in this order: scale, softcap, bias, mask, softmax (with a sink)",
)  # fmt: skip
KV_HEADS = Field(
    "kv_heads", each(COUNT), "for every one of them the key/value head that it reads", lambda call: [*call.place.groups]
)
LAYERS = Field(
    "layers",
    Rows(
        (
            Field("layer", COUNT, "the model's own block number", "place.layer"),
            Field("name", TEXT, "the module's path in the model", "place.name"),
            Field("stream", TEXT, "self, encoder, decoder, cross, ...", "place.stream"),
            Field("call", COUNT, "0, or 1, 2, ... where the same module runs again in one forward pass", "place.call"),
            Field("way", TEXT, "how: computed, registry, softmax, sdpa, dispatch or returned", "place.way"),
            Field(
                "heads", each(COUNT), "the chosen heads, by the model's own numbers", lambda call: [*call.place.heads]
            ),
            KV_HEADS,
            RULE,
        ),
        "one attention call: a layer, or one of a layer's streams",
    ),
    value="summaries",
)
