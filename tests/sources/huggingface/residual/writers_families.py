"""The names of families of models, for the dense writers."""

from tests.sources.huggingface.residual.dense_writers import Family, conv1d, linear, of_rows

_LLAMA = "model.layers.{}."


def _llama(**more: object) -> Family:
    return Family(**{  # type: ignore[arg-type]
        "embeddings": {"embedding": "model.embed_tokens"}, "w_o": _LLAMA + "self_attn.o_proj", "mlp": _LLAMA + "mlp",
        "before": _LLAMA + "input_layernorm", "q": linear("self_attn.q_proj"), "k": linear("self_attn.k_proj"),
        "turned": "halves",
    } | more)  # fmt: skip


def _third(at: int) -> object:
    return lambda x: x.chunk(3)[at]


def _of_heads(at: int, heads: int = 4) -> object:
    """Of a layer whose rows are head by head: its query, its key, its value."""
    return lambda x: x.reshape(heads, 3, -1, *x.shape[1:])[:, at].reshape(-1, *x.shape[1:])


_T5 = "encoder.block.{}.layer."
_GPT2, _NEOX, _BERT = "transformer.h.{}.", "gpt_neox.layers.{}.", "bert.encoder.layer.{}."
_OPT = "model.decoder.layers.{}."
FAMILIES = {
    "llama": _llama(),
    "qwen3": _llama(q_norm=_LLAMA + "self_attn.q_norm", k_norm=_LLAMA + "self_attn.k_norm"),
    "olmo2": _llama(before="", behind=(_LLAMA + "post_attention_layernorm", _LLAMA + "post_feedforward_layernorm"),
                    q_norm=_LLAMA + "self_attn.q_norm", k_norm=_LLAMA + "self_attn.k_norm", whole=True),
    "gemma2": _llama(behind=(_LLAMA + "post_attention_layernorm", _LLAMA + "post_feedforward_layernorm"),
                     plus_one=True),
    "granite": _llama(scale=0.7, embedding_scale=3.0),
    "cohere": _llama(turned="neighbours", centred=True),
    "phi": _llama(w_o=_LLAMA + "self_attn.dense", centred=True),
    "starcoder2": _llama(centred=True),
    "gpt2": Family(
        {"embedding": "transformer.wte", "positions": "transformer.wpe"}, _GPT2 + "attn.c_proj", _GPT2 + "mlp",
        of_rows(conv1d("attn.c_attn"), _third(0)), of_rows(conv1d("attn.c_attn"), _third(1)),
        before=_GPT2 + "ln_1", centred=True,
    ),
    "gpt_neox": Family(
        {"embedding": "gpt_neox.embed_in"}, _NEOX + "attention.dense", _NEOX + "mlp",
        of_rows(linear("attention.query_key_value"), _of_heads(0)),
        of_rows(linear("attention.query_key_value"), _of_heads(1)),
        before=_NEOX + "input_layernorm", centred=True, turned="halves",
    ),
    "bert": Family(
        {"embedding": "bert.embeddings.word_embeddings", "positions": "bert.embeddings.position_embeddings",
         "token type embeddings": "bert.embeddings.token_type_embeddings"},
        _BERT + "attention.output.dense", _BERT + "output.dense",
        linear("attention.self.query"), linear("attention.self.key"), first_norm="bert.embeddings.LayerNorm",
        after=(_BERT + "attention.output.LayerNorm", _BERT + "output.LayerNorm"), centred=True,
    ),
    "opt": Family(
        {"embedding": "model.decoder.embed_tokens", "positions": "model.decoder.embed_positions"},
        _OPT + "self_attn.out_proj", _OPT + "fc2",
        linear("self_attn.q_proj"), linear("self_attn.k_proj"), before=_OPT + "self_attn_layer_norm", centred=True,
        query_scale=8**-0.5,
    ),
    "mixtral": _llama(),
    "qwen2_moe": _llama(),
    "granitemoe": _llama(mlp=_LLAMA + "block_sparse_moe"),
    "olmoe": _llama(q_norm=_LLAMA + "self_attn.q_norm", k_norm=_LLAMA + "self_attn.k_norm", whole=True),
}  # fmt: skip
T5 = Family(
    {"embedding": "encoder.embed_tokens"}, _T5 + "0.SelfAttention.o", _T5 + "1.DenseReluDense",
    linear("layer.0.SelfAttention.q"), linear("layer.0.SelfAttention.k"), before=_T5 + "0.layer_norm",
)  # fmt: skip
_T5_DECODER = "decoder.block.{}.layer."
T5_DECODER = Family(
    {"embedding": "decoder.embed_tokens"}, _T5_DECODER + "0.SelfAttention.o", _T5_DECODER + "2.DenseReluDense",
    linear("layer.0.SelfAttention.q"), linear("layer.0.SelfAttention.k"), before=_T5_DECODER + "0.layer_norm",
    cross=_T5_DECODER + "1.EncDecAttention.o",
)  # fmt: skip
