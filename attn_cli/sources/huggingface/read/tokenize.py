"""A text as the model's tokens, each labelled with the piece of the text that it stands for."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import regex
from transformers import BatchEncoding, PreTrainedTokenizerBase

from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import EncodedText, Prompt, Token, Word
from attn_cli.text import listed

# number of earlier tokens to decode with: they decide the first piece's space and complete a character's bytes
_CONTEXT = 8
_BYTES = 4  # the most bytes of a character in UTF-8
_UNFINISHED = "\ufffd"
PAIR_MARK = " [pair] "  # between the two texts of a pair in `Prompt.text`


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    pair: str | None = None,
    *,
    add_special_tokens: bool = True,
    target: bool = False,
) -> Prompt:
    """The tokens of a text and its pair; of a `target` text as the decoder's labels are made."""
    for part in (text, *([] if pair is None else [pair])):
        if not part.strip():
            raise InputError("the text is empty", "give some words, or - to read them from standard input")
        try:
            part.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError("the text is not valid UTF-8", f"at character {error.start}") from error
    encoding = _encoding(tokenizer, text, pair, add_special_tokens, target)
    ids: list[int] = encoding["input_ids"]
    if not ids:
        raise InputError("the tokenizer made no tokens of the text", "is it the right tokenizer?")
    whole = text if pair is None else text + PAIR_MARK + pair
    sequences = encoding.sequence_ids() if tokenizer.is_fast else [0] * len(ids)
    if pair is not None and (0, 1) in pairwise(sequences):
        raise InputError("this model doesn't read pairs of texts", "give one text, without --pair")
    added = encoding["special_tokens_mask"]
    spans = encoding.get("offset_mapping") or _spans_by_decoding(tokenizer, whole, ids, added)
    control = _control(tokenizer)
    pieces = _pieces(tokenizer, [text] if pair is None else [text, pair], added, target)
    tokens = []
    for index, (number, span, sequence) in enumerate(zip(ids, spans, sequences, strict=True)):
        before = len(text) + len(PAIR_MARK) if sequence == 1 else 0
        special = bool(added[index]) or number in control
        token = token_at(tokenizer, index, number, special, whole, span[0] + before, span[1] + before)
        piece = pieces.get(index, "")
        if piece and piece != tokenizer.convert_ids_to_tokens(number):  # unknown, or of a vocabulary of its own
            token = replace(token, text=tokenizer.convert_tokens_to_string([piece]).strip() or piece)
        tokens.append(token)
    notes = (*_unknown(tokenizer, tokens), *_doubled(tokenizer, ids, target), *text_notes(whole, tokens))
    return Prompt(whole, with_words(whole, tokens, _added(tokenizer)), notes)


def text_notes(text: str, tokens: Sequence[Token]) -> tuple[str, ...]:
    """A note on the end of a text that has letters or digits and no tokens; () where all is read."""
    ends = [token.end for token in tokens if token.end is not None]
    if not ends or not any(map(str.isalnum, text[max(ends) :])):
        return ()
    return (f"read {max(ends):,} of {len(text):,} characters: the text is cut",)


def _control(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    return set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def _added(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    return set(tokenizer.added_tokens_decoder) - {tokenizer.unk_token_id}


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[EncodedText]:
    """The tokens of each text as numbers, by one call of the tokenizer: those of `tokenize`, without labels."""
    encoding = _encoding(tokenizer, list(texts))
    ends = np.cumsum([len(numbers) for numbers in encoding["input_ids"]])[:-1]
    ids = np.array(list(chain.from_iterable(encoding["input_ids"])), np.int64)  # of all texts at once
    special = np.array(list(chain.from_iterable(encoding["special_tokens_mask"])), bool) | np.isin(
        ids, sorted(_control(tokenizer))
    )
    spans = np.full((len(ids), 2), -1)
    if (places := encoding.get("offset_mapping")) is not None and len(ids):
        spans = np.array(list(chain.from_iterable(places)), np.int64).reshape(-1, 2)
        spans[spans[:, 0] == spans[:, 1]] = -1
    parts = zip(*(np.split(x, ends) for x in (ids, special, spans)), strict=True)
    return [EncodedText(ids, special, spans[:, 0], spans[:, 1]) for ids, special, spans in parts]


def labels(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]) -> tuple[Token, ...]:
    """The tokens of some ids, each labelled by its own text, or its number without a tokenizer."""
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)
    return tuple(
        Token(index, _label(tokenizer, number), number, special=number in special) for index, number in enumerate(ids)
    )


def aligned(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], *, add_special_tokens: bool
) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """The tokens with the ids that a processor made of `text`, labelled by the text; notes on the text."""
    whole = labels(tokenizer, ids)
    prompt = tokenize(tokenizer, text, add_special_tokens=add_special_tokens) if text.strip() else Prompt("", ())
    plain = prompt.tokens
    by_text, by_ids = [token.id for token in plain], list(ids)
    before = _alike(by_text, by_ids)
    after = min(_alike(by_text[::-1], by_ids[::-1]), len(plain) - before)
    if before + after < min(len(plain), len(whole)) - 1:
        return whole, ()
    if len(whole) < len(plain) - 1:  # the processor cuts the text
        plain, after = plain[:before], 0
    tokens = [*plain[:before], *whole[before : len(whole) - after], *plain[len(plain) - after :]]
    return tuple(replace(token, index=index) for index, token in enumerate(tokens)), prompt.warnings


def _alike(some: Sequence[Any], others: Sequence[Any]) -> int:
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(some), len(others)))


def _decoded_spans(
    tokenizer: PreTrainedTokenizerBase, before: Sequence[int], ids: Sequence[int], text: str = ""
) -> tuple[str, list[tuple[int, int]]]:
    """`text` continued by the text of `ids`, and the place in it of each; bytes of a character share its place."""
    nearby = [*before[-_CONTEXT:], *ids]
    # tokens are decoded from `context` on; those before `decoded_end` are in `text` already
    context, decoded_end = 0, len(nearby) - len(ids)
    spans: list[tuple[int, int]] = []
    for at in range(decoded_end, len(nearby)):
        old, new = _decoded(tokenizer, nearby[context:decoded_end]), _decoded(tokenizer, nearby[context : at + 1])
        waiting = nearby[decoded_end : at + 1]
        unfinished = new.endswith(_UNFINISHED) or (new == old and _is_byte(tokenizer, nearby[at]))
        if unfinished and at + 1 < len(nearby) and len(waiting) < _BYTES:
            continue
        start = len(text)
        text += new[len(old) :] if new.startswith(old) else _decoded(tokenizer, waiting)
        spans += [(start, len(text))] * len(waiting)
        context, decoded_end = decoded_end, at + 1
    return text, spans


def detokenize(
    tokenizer: PreTrainedTokenizerBase | None, before: Sequence[int], ids: Sequence[int], text: str = ""
) -> tuple[str, tuple[Token, ...]]:
    """`text` continued by the text of `ids`, and a token for each of `ids`, numbered from 0."""
    if tokenizer is None:
        return text, tuple(Token(at, str(number), number, generated=True) for at, number in enumerate(ids))
    control = _control(tokenizer)
    text, spans = _decoded_spans(tokenizer, before, ids, text)
    tokens = [
        replace(token_at(tokenizer, at, number, number in control, text, *span), generated=True)
        for at, (number, span) in enumerate(zip(ids, spans, strict=True))
    ]
    return text, with_words(text, tokens, _added(tokenizer))


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _is_byte(tokenizer: PreTrainedTokenizerBase, number: int) -> bool:
    name = str(tokenizer.convert_ids_to_tokens(number))
    return len(name) == 1 and 128 <= ord(name) < 256


def _spans_by_decoding(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], added: Sequence[int]
) -> list[tuple[int, int]]:
    """The place of each token in `text`, if the tokens decode to just that; (0, 0) of those of no place."""
    own = [number for number, is_added in zip(ids, added, strict=True) if not is_added]
    read, spans = _decoded_spans(tokenizer, (), own)
    places = iter(spans)
    return [(0, 0) if is_added or read != text else next(places) for is_added in added]


def _pieces(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], added: Sequence[int], target: bool
) -> dict[int, str]:
    if tokenizer.is_fast or target:
        return {}
    pieces = [piece for text in texts for piece in tokenizer.tokenize(text)]
    places = [index for index, is_added in enumerate(added) if not is_added]
    return dict(zip(places, pieces, strict=True)) if len(places) == len(pieces) else {}


def _encoding(
    tokenizer: PreTrainedTokenizerBase,
    text: str | list[str],
    pair: str | None = None,
    add_special_tokens: bool = True,
    target: bool = False,
) -> BatchEncoding:
    texts = {"text_target": text} if target else {"text": text, "text_pair": pair}
    try:
        return tokenizer(
            **texts,
            add_special_tokens=add_special_tokens,
            return_offsets_mapping=bool(tokenizer.is_fast),
            return_special_tokens_mask=True,
            return_attention_mask=False,
        )
    except MemoryError:
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise LoadError(f"the tokenizer can't read a text: {error}", "is its tokenizer.json whole?") from error


def token_at(
    tokenizer: PreTrainedTokenizerBase, index: int, number: int, special: bool, whole: str, start: int, end: int
) -> Token:
    """The token with id `number` that stands for `whole[start:end]`, labelled by that without the space around it."""
    if start == end:  # a token that the tokenizer added, or a tokenizer without offsets
        name = str(tokenizer.convert_ids_to_tokens(number) or number)  # models may have more ids than their tokenizers
        return Token(index, name if special else tokenizer.decode([number]).strip() or name, number, special=special)
    piece = whole[start:end]
    trimmed = piece.strip()
    if trimmed:  # byte-level tokenizers include the space before a word
        start += piece.index(trimmed)
        end = start + len(trimmed)
    return Token(index, whole[start:end], number, start, end, special)


def _unknown(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Token]) -> Iterator[str]:
    words = dict.fromkeys(token.text for token in tokens if token.id == tokenizer.unk_token_id and not token.special)
    if words:
        yield f"not in the model's vocabulary, read as {tokenizer.unk_token}: {listed(words, 20)}"


def _doubled(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], target: bool) -> Iterator[str]:
    starts, ends = {tokenizer.bos_token_id, tokenizer.cls_token_id}, {tokenizer.eos_token_id, tokenizer.sep_token_id}
    if len(ids) > 1 and ids[0] == ids[1] and ids[0] in starts:
        yield f"two start tokens: the text begins with {tokenizer.convert_ids_to_tokens(ids[0])} twice"
    if len(ids) > 1 and ids[-1] == ids[-2] and ids[-1] in ends and not target:  # a decoder doesn't read its end token
        yield f"two end tokens: the text ends with {tokenizer.convert_ids_to_tokens(ids[-1])} twice"


def _label(tokenizer: PreTrainedTokenizerBase | None, number: int) -> str:
    if tokenizer is None or not 0 <= number < len(tokenizer):
        return str(number)
    return tokenizer.decode([number]).strip() or str(tokenizer.convert_ids_to_tokens(number))


# Words end as in Unicode's rules (UAX 29). A space that is a token belongs to the word after it. In scripts without
# spaces every token is a word.
_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}]"
)
_ACCENTS = r"[[\p{M}\p{Cf}\U0001f3fb-\U0001f3ff]--\u200b]*"
_LETTER, _TIED = rf"[\p{{L}}\p{{N}}\p{{Pc}}]{_ACCENTS}", rf"(?<=\u200d).{_ACCENTS}"  # by a joiner
_INSIDE = rf"(?<=\p{{L}}{_ACCENTS})['’](?=\p{{L}}) | (?<=\p{{Nd}}{_ACCENTS})[.,](?=\p{{Nd}})"
_FLAG, _OTHER = rf"\p{{RI}}{{2}}{_ACCENTS}", rf"\S{_ACCENTS} (?:{_TIED})*"
_WORD = regex.compile(f"(?V1xs) {_FLAG} | {_LETTER} (?:{_LETTER} | {_TIED} | {_INSIDE})* | {_OTHER}")
_AT_UNSPACED = regex.compile(rf"(?<={_UNSPACED})[\p{{L}}\p{{N}}_] | (?={_UNSPACED})[\p{{L}}\p{{N}}]", regex.VERBOSE)


def with_words(text: str, tokens: Sequence[Token], added: Collection[int]) -> tuple[Token, ...]:
    """The `tokens` of `text`, in order, each with the word that it is a piece of."""
    labelled, starts = list(tokens), _word_starts(text)
    pieces: list[Token] = []  # of one word
    for token in (*tokens, None):
        is_text = token and not (token.special or token.start is None or token.id in added or token.text.isspace())
        if pieces and not (is_text and token and _touch(pieces[-1], token, starts)):
            word = Word(text[pieces[0].start : max(piece.end or 0 for piece in pieces)])
            for piece in pieces:
                labelled[piece.index] = replace(piece, word=word)
            pieces = []
        if is_text and token:
            pieces.append(token)
    for space, following in pairwise(labelled):
        if space.text == " " and following.start == space.end and not space.special:
            labelled[space.index] = replace(space, word=following.word)
    return tuple(labelled)


def _touch(one: Token, other: Token, starts: Collection[int]) -> bool:
    assert one.end is not None and other.start is not None
    # bytes of one character share its place
    return other.start < one.end or (other.start == one.end and other.start not in starts)


def _word_starts(text: str) -> set[int]:
    starts = {match.start() for match in _WORD.finditer(text)}
    if text.isascii():
        return starts
    return starts | {match.start() for match in _AT_UNSPACED.finditer(text)}
