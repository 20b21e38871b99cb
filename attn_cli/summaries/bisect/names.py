"""What the name of a dumped array says: its layer, and the stations that it can be; numbers decide among these."""

import re
from typing import NamedTuple

from attn_cli.errors import InputError
from attn_cli.model.stations import KINDS
from attn_cli.text import excerpt, listed

LAYER = "{layer}"
_ANCHORED = re.compile(r"(?:^|[^a-z])(?:layers?|blocks?|blk|h|l|resid|decoder|encoder)[._/\[\- ]*(\d+)", re.IGNORECASE)
_LAST = re.compile(r"-(\d+)(?=$|[^\w])")
_OTHER_MIXERS = re.compile(r"mamba|ssm|conv|linear_attn|rglru|rwkv", re.IGNORECASE)
_OF_W_O = re.compile(r"(o_proj|out_proj|attn_output|wo)[._/](heads|in(put)?)$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

# The first that fits: what a name has in it, and the stations that it can mean, the likeliest first.
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"ffn_inp", ("residual_mid",)),
    (r"qkv_proj|c_attn|query_key_value|w_?qkv|attn_qkv|in_proj", ("qkv_projected",)),
    (r"post_(feedforward|mlp|ffn|ffw)\w*norm|ffn_post_norm", ("mlp_output_normed",)),
    (r"result_output|lm_?head|logits|output_logits", ("logits",)),
    (r"result_norm|final_?(layer_?)?norm|ln_f|norm_f|^(model\.|transformer\.)?norm(\.out(put)?)?$", ("final_norm",)),
    (r"inp_embd|embed_tokens|tok_?emb|wte|^embd?$|embeddings?$|inputs_embeds", ("embedding", "residual_in")),
    (r"post_attention_?(layer)?_?norm", ("attention_normed", "mlp_normed", "residual_mid")),
    (
        r"(pre_?(mlp|ffn|feedforward)|ffn|mlp|ln_?2)_?(layer)?_?norm|ln_2|norm_?2|mlp_(in|input)\b",
        ("mlp_normed", "attention_normed", "residual_mid"),
    ),
    (r"(input|attn|pre_attention|self_attn|ln_?1)_?(layer)?_?norm|ln_1|norm_?1|attn_(in|input)\b", ("normed",)),
    (r"q_?(rot|rope)|rot\w*_?q|rope_?q|quer(y|ies)_?(rot|rope)|q_after|q_roped", ("q_rotated",)),
    (r"k_?(rot|rope)|rot\w*_?k|rope_?k|keys?_?(rot|rope)|k_after|k_roped", ("k_rotated",)),
    (r"q_(proj|lin)\b|wq\b|query_proj|q_before|q_pre", ("q_projected", "q", "q_rotated")),
    (r"k_(proj|lin)\b|wk\b|key_proj|k_before|k_pre", ("k_projected", "k", "k_rotated")),
    (r"v_(proj|lin)\b|wv\b|value_proj", ("v_projected", "v")),
    (r"qcur|quer(y|ies)|query_states|(^|[^a-z])q($|[^a-z])", ("q_rotated", "q", "q_projected")),
    (r"kcur|(^|[^a-z])keys?($|[^a-z])|key_states|(^|[^a-z])k($|[^a-z])|k_cache", ("k_rotated", "k", "k_projected")),
    (r"vcur|values?|(^|[^a-z])v($|[^a-z])|v_cache", ("v", "v_projected")),
    (r"kqv_out|kqv|context|attn_heads|heads|z$|before_o|pre_o", ("heads", "w_o_input", "attention")),
    (r"o_proj|wo\b|c_proj|out_proj|attn_out_proj|after_o", ("attention", "heads")),
    (r"(self_)?att(n|ention)?(_?out(put)?)?", ("attention", "heads")),
    (r"ffn_out|mlp|feed_?forward|moe|ffn", ("mlp",)),
    (r"resid\w*_?(mid|attn)|h_mid", ("residual_mid",)),
    (r"resid\w*_?(in|pre)|layer_in(put)?", ("residual_in",)),
    (r"l_out|layer_out(put)?|block_out(put)?|resid\w*_?(out|post)", ("residual",)),
    (r"hidden(_?states?)?|resid|residual|^x$", ("residual_in", "residual")),
    (r"layers?|blocks?|blk|(^|[^a-z])h($|[^a-z])", ("residual", "residual_in")),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), kinds) for pattern, kinds in _WORDS)


class Hint(NamedTuple):
    """What an array's name says of it: its layer, and the stations (places in the pass) that its numbers can be of.

    layer     its layer; None where it names none
    kinds     the stations that it can be, the likeliest first; () where it says nothing
    template  the name with `{layer}` in place of its layer's number: arrays of one template are of one station
    chosen    whether the user said so with --map
    """

    layer: int | None
    kinds: tuple[str, ...]
    template: str
    chosen: bool = False


class NameMap:
    """The user's own names of arrays in a dump, such as `blk{layer}.q=q_rotated`: the array's name, then its station.

    A station is a place in the forward pass at which numbers are compared, such as q after rotary positions. Raises
    InputError for one that there is none of.
    """

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self.of: list[tuple[re.Pattern[str], str]] = []
        for line in lines:
            template, equal, kind = line.rpartition("=")
            if not equal or kind not in KINDS:
                raise InputError(f"--map {excerpt(line, 60)} names no station",
                                 f"NAME=STATION, such as blk{LAYER}.q=q_rotated, of {listed(KINDS, 20)}")  # fmt: skip
            pattern = re.escape(template).replace(re.escape(LAYER), r"(?P<layer>\d+)", 1)
            self.of.append((re.compile(pattern), kind))

    def hint(self, name: str) -> Hint | None:
        """The layer and station (a place in the pass, such as q_rotated) that --map gives a name; None if none does."""
        for pattern, kind in self.of:
            if match := pattern.fullmatch(name):
                number = match.groupdict().get("layer")
                return Hint(None if number is None else int(number), (kind,), pattern.pattern, True)
        return None


def hint_of(name: str) -> Hint:
    """What a name says by itself of its array: the layer, and the stations that it may be from, the likeliest first.

    A station is a place in the pass, such as q_rotated; engines mean different ones by a name. Read in the styles of
    Hugging Face and llama.cpp; no layer and no stations where it says nothing.

    >>> hint_of("model.layers.3.self_attn.q_proj")[:2], hint_of("Kcur-12")[:2], hint_of("arr_0")[:2]
    ((3, ('q_projected', 'q', 'q_rotated')), (12, ('k_rotated', 'k', 'k_projected')), (None, ()))
    """
    match = _ANCHORED.search(name) or _LAST.search(name)
    if match is None:
        numbers = list(_NUMBER.finditer(name))
        match = numbers[0] if len(numbers) == 1 and not name.startswith("arr_") else None
    if match is None:
        rest, template, layer = name, name, None
    else:
        start, stop = match.span(1 if match.re.groups else 0)
        layer = int(name[start:stop]) if stop - start < 7 else None
        template = f"{name[:start]}{LAYER}{name[stop:]}"
        rest = template.replace(LAYER, "")
    below = re.sub(r"^.*?(layers?|blocks?|blk)[._/\[\]\- ]+", "", rest, flags=re.IGNORECASE) or rest
    if _OTHER_MIXERS.search(name):
        return Hint(layer, (), template)
    if _OF_W_O.search(below):
        return Hint(layer, ("w_o_input", "heads"), template)
    parts = below.split(".")
    for text in dict.fromkeys((parts[-1], ".".join(parts[-2:]), below, rest)):
        for pattern, kinds in _COMPILED:
            if pattern.search(text):
                return Hint(layer, kinds, template)
    return Hint(layer, (), template)
