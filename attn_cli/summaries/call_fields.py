"""Fields that rows of one attention call have in common: layer, head, query and key, shares of what a row reads."""

from attn_cli.fields import COUNT, SHARE, TEXT, Field, Schema

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
RESCALED_SHARE = Field(
    "rescaled_share",
    SHARE,
    "the same renormalised over the keys that are not hidden, of the row or of all rows together; with --rescale",
    optional=True,
)
SHARE_BY = {"value": VALUE_SHARE, "output": OUTPUT_SHARE}  # what ranks keys, where it isn't the weight
SHARES = (*SHARE_BY.values(), RESCALED_SHARE)
