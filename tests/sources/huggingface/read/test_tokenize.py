"""Tokens are labelled with what the user wrote, at the place where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.tokenize import aligned, text_notes, tokenize
from tests.media import tokenizer


def prompt(loaded: LoadedModel, text: str, pair: str | None = None) -> Prompt:
    return tokenize(loaded.tokenizer, text, pair)


def test_pieces_of_words_and_special_tokens(minilm: LoadedModel) -> None:
    found = prompt(minilm, "He sat, unbelievably.")
    assert [token.text for token in found.tokens] == [
        "[CLS]", "He", "sat", ",", "un", "bel", "ie", "va", "bly", ".", "[SEP]"
    ]  # fmt: skip
    assert [token.special for token in found.tokens] == [True, *[False] * 9, True]
    assert (found.tokens[0].start, found.tokens[0].end) == (None, None)


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        ("smollm", "He sat, unbelievably.", ["He", "sat", ",", "unbelie", "v", "ably", "."]),  # no space is shown
        ("smollm", " two  spaces\n\nand\ta tab ", [
            "two", " ", "spaces", "\n", "\n", "and", "\t", "a", "tab", " "  # tokens of their own
        ]),
        ("minilm", "NAÏVE Bank", ["[CLS]", "NAÏVE", "Bank", "[SEP]"]),  # which the model reads in lower case
    ],
)  # fmt: skip
def test_labels_are_what_was_written(
    model: str, text: str, expected: list[str], request: pytest.FixtureRequest
) -> None:
    assert [token.text for token in prompt(request.getfixturevalue(model), text).tokens] == expected


def test_an_emoji_of_several_tokens(smollm: LoadedModel) -> None:
    found = prompt(smollm, "🙂 日 naïve")
    assert [token.text for token in found.tokens] == ["🙂", "🙂", "日", "日", "日", "na", "ïve"]
    assert [token.start for token in found.tokens] == [0, 0, 2, 2, 2, 4, 6]


def test_what_the_model_does_not_know_is_shown_and_warned_about(minilm: LoadedModel) -> None:
    found = prompt(minilm, "🙂 is fine, 👩‍👩‍👧 is not")
    assert found.tokens[1].text == "🙂"
    assert not found.tokens[1].special
    assert found.warnings == ("not in the model's vocabulary, read as [UNK]: 🙂, 👩‍👩‍👧",)
    assert prompt(minilm, "all is known").warnings == ()


def test_special_tokens_that_stand_in_the_text(smollm: LoadedModel) -> None:
    found = prompt(smollm, "<|im_start|>user\nhi<|im_end|>")
    assert [token.text for token in found.tokens] == ["<|im_start|>", "user", "\n", "hi", "<|im_end|>"]
    assert [token.special for token in found.tokens] == [True, False, False, False, True]
    assert (found.tokens[0].start, found.tokens[0].end) == (0, 12)


def test_a_pair(minilm: LoadedModel) -> None:
    found = prompt(minilm, "river bank", "the loan")
    assert found.text == "river bank [pair] the loan"
    assert [token.text for token in found.tokens] == ["[CLS]", "river", "bank", "[SEP]", "the", "loan", "[SEP]"]
    assert found.tokens[5].start == found.text.index("loan")


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text(real: LoadedModel, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        prompt(real, text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip()))
def test_every_label_is_the_text_at_its_place(minilm: LoadedModel, smollm: LoadedModel, text: str) -> None:
    for loaded in (minilm, smollm):
        if not loaded.tokenizer(text)["input_ids"]:  # a vocabulary without that character
            with pytest.raises(InputError, match="no tokens"):
                tokenize(loaded.tokenizer, text)
            continue
        found = tokenize(loaded.tokenizer, text)
        for token in found.tokens:
            if token.start is not None:
                assert token.text == text[token.start : token.end] != ""
        assert [token.index for token in found.tokens] == list(range(len(found.tokens)))
        assert [token.id for token in found.tokens] == loaded.tokenizer(text)["input_ids"]


def test_a_text_that_a_tokenizers_pattern_gives_up_on() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+b"), "isolated")
    reads = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(LoadError, match="the tokenizer can't read"):
        tokenize(reads, "a" * 60)


def test_special_tokens_that_the_text_and_the_tokenizer_write_are_noted(minilm: LoadedModel) -> None:
    def notes(text: str, **how: bool) -> list[str]:
        return list(tokenize(minilm.tokenizer, text, **how).warnings)

    start = "two start tokens: the text begins with [CLS], the tokenizer adds another"
    end = "two end tokens: the text ends with [SEP], the tokenizer adds another"
    assert notes("a bank") == notes("a [SEP] bank") == []
    assert notes("[CLS] a bank") == [start]
    assert notes("[CLS] a bank [SEP]") == [start, end]
    assert notes("a bank [SEP]", target=True) == []  # its end token is no input of a decoder
    assert notes("[CLS][CLS] a bank [SEP]", add_special_tokens=False) == [
        "two start tokens: the text begins with [CLS] twice"
    ]


def test_a_text_says_where_it_is_cut() -> None:
    words, text = tokenizer(), "the cat sat what is here ?"
    for length, said in ((6, ("read 16 of 26 characters: the text is cut",)), (9, ())):
        ids = words(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
        tokens, _ = aligned(words, text, ids[0].tolist(), add_special_tokens=True)
        assert [token.id for token in tokens] == ids[0].tolist()
        assert [text[token.start : token.end] for token in tokens[1:5]] == ["the", "cat", "sat", "what"]
        assert text_notes(text, tokens) == said
