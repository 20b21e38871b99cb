"""The fields of a text in machine output: its tokens, what was read beside it, and what a model generated after it."""

from collections.abc import Iterable, Sequence

from attn_cli.fields import COUNT, FLAG, INTEGER, TEXT, Schema, each, or_none
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.columns import Column, object_schema

_TOKEN = {
    "index": Column(COUNT, "the row and column number of the token"),
    "id": Column(or_none(INTEGER), "its number in the vocabulary, null where there is none, as for words"),
    "text": Column(TEXT, "what the text says at this place, exactly"),
    "start": Column(or_none(INTEGER), "first character in input.text, null for a token that stands for no text"),
    "end": Column(or_none(INTEGER), "one past the last character, null likewise"),
    "special": Column(FLAG, "whether the tokenizer added it"),
    "row?": Column(COUNT, "row of the patch of an image that it stands for, from 0, missing where no grid is known"),
    "column?": Column(COUNT, "its column likewise"),
    "generated?": Column(FLAG, "true for generated tokens, with --generate, missing otherwise"),
    "image?": Column(COUNT, "the number of its picture, from 1, missing where one is read or none"),
}
_GENERATED = {
    "text": Column(TEXT, "the text, exactly"),
    "tokens": Column(COUNT, "how many tokens it has"),
    "ended": Column(FLAG, "true if the model wrote its end token, which is not among the tokens, false at the limit"),
    "start": Column(or_none(INTEGER), "first character in input.text, null where a decoder wrote it of another text"),
    "given": Column(FLAG, "true if it was given, with --answer or as a chat's last message, and not generated"),
}
_TOKENS = each(object_schema(_TOKEN))
_STREAMS: Schema = {"type": "object", "additionalProperties": _TOKENS}
INPUT = object_schema(
    {
        "text": Column(TEXT, "the text, exactly"),
        "tokens": Column(_TOKENS, "its tokens, in order"),
        "streams?": Column(_STREAMS, "the tokens of streams that read something else, by stream: decoder, vision"),
        "image?": Column(TEXT, "the picture that was read, as --image named it"),
        "images?": Column(each(TEXT), "the pictures, where several were read"),
        "audio?": Column(TEXT, "the sound that was read, as --audio named it"),
        "generated?": Column(object_schema(_GENERATED), "what the model generated first, with --generate"),
        "merged_tokens?": Column(COUNT, "tokens that --words merged: their weights are summed, or averaged in queries"),
    }
)


def input_document(prompt: Prompt, merged_tokens: int | None = None) -> dict[str, object]:
    """A text as a JSON object, with its tokens, or its words where tokens were merged into words."""
    files, generated = prompt.files, prompt.generated
    optional = {
        "streams": {name: _tokens(tokens) for name, tokens in prompt.others.items()} or None,
        "image": files.get("image"),
        "images": [file for kind, file in files.items() if kind.startswith("image ")] or None,
        "audio": files.get("audio"),
        "generated": None if generated is None else _values(_GENERATED, generated),
        "merged_tokens": merged_tokens,
    }
    document = {"text": prompt.text, "tokens": _tokens(prompt.tokens)}
    return document | {name: value for name, value in optional.items() if value is not None}


def _tokens(tokens: Sequence[Token]) -> list[dict[str, object]]:
    return [_values(_TOKEN, token) for token in tokens]


def _values(names: Iterable[str], thing: object) -> dict[str, object]:
    """The attributes of these names; one that ends with ? is left out where it is None or False."""
    values = {name: getattr(thing, name.rstrip("?")) for name in names}
    return {name.rstrip("?"): x for name, x in values.items() if not (name.endswith("?") and (x is None or x is False))}
