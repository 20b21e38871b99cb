"""Shares equal sums of eager weights; what is hidden equals whole passes with a mask that is written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.errors import InputError
from attn_cli.model.intervention import Change
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import (
    MessageText,
    TextPart,
    message_spans,
    named_parts,
    parts_of,
    rows_of_last,
)
from tests.attention_name import all_named
from tests.loaded import load_once
from tests.real_models import MINILM
from tests.sources.huggingface.intervene.oracle import Masked, log2_p, prompt_of, speaking_source


@pytest.fixture(scope="module")
def minilm() -> LoadedModel:
    return load_once(find(str(MINILM), OriginOptions()))


ROWS = (7, 8, 9, 10, 11)
PARTS = (
    TextPart("first", (), (0, 1, 2)), TextPart("empty", (), ()), TextPart("apart", (), (3, 6)),
    TextPart("between", (), (4, 5)), TextPart("last", (), ROWS),
)  # fmt: skip
# grouped keys, window, softcap, learned sink, latent keys, a hybrid, ALiBi
KINDS = ["llama", "mistral", "gemma2", "gpt_oss", "deepseek_v3", "jamba", "bloom"]


def eager_weights(source: ModelSource, prompt: Prompt) -> list[np.ndarray]:
    """The weights `[h, n, m]` of every layer, as the model's own eager attention returns them."""
    model = source.loaded.generating or source.loaded.model
    with torch.no_grad(), all_named(model, "eager"):
        output = model(**source.reader.arguments([prompt]), output_attentions=True)
    return [layer[0].numpy().astype(np.float64) for layer in output["attentions"] if layer is not None]


def hidden_mask(rows: Sequence[int], keys: Sequence[int], n: int, window: int = 1000) -> torch.Tensor:
    """An additive causal mask `[1, 1, n, n]` in which `rows` can't see `keys`, but themselves."""
    mask = torch.full((n, n), float("-inf")).triu(1) + torch.full((n, n), float("-inf")).tril(-window)
    mask = torch.where(torch.isnan(mask), float("-inf"), mask)
    for row in rows:
        mask[row, [key for key in keys if key != row]] = float("-inf")
    return mask.clamp(min=torch.finfo(torch.float32).min)[None, None]


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    """The rows of parts, in the order of the text."""
    return sorted(answer["parts"], key=lambda row: int(row["part"]))


def effects_of(answer: Answer) -> list[float]:
    return [row["hidden_bits"] for row in rows_of(answer)]


def hidden_keys(answer: Answer, part: TextPart) -> list[int]:
    """The tokens of a part that are hidden: all but sinks, of a part of sinks alone all."""
    sinks = {sink["key"] for sink in answer["sinks"]}
    return [token for token in part.tokens if token not in sinks] or list(part.tokens)


def masked_log2_p(source: ModelSource, prompt: Prompt, rows: Sequence[int], keys: Sequence[int]) -> torch.Tensor:
    """log2 p of all words after the last row, in a whole pass of the model's own attention under that mask."""
    model, n = source.loaded.generating, len(prompt.tokens)
    assert model is not None
    mask: Any = hidden_mask(rows, keys, n)
    window = getattr(model.config, "sliding_window", None) or 1000
    if source.about["type"] in ("gemma2", "gpt_oss"):
        mask = {"full_attention": mask, "sliding_attention": hidden_mask(rows, keys, n, window)}
    return log2_p(model, source.reader.arguments([prompt]) | {"attention_mask": mask})[-1]


def read(source: ModelSource, **options: Any) -> tuple[Answer, Prompt]:
    prompt = prompt_of()
    return read_parts(source, prompt, PARTS, rows=ROWS, **options), prompt


@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_sums_of_eager_weights(kind: str) -> None:
    source = speaking_source(kind)
    answer, prompt = read(source)
    weights = eager_weights(source, prompt)
    for part, row in zip(PARTS, rows_of(answer), strict=True):
        places = list(part.tokens)
        expected = np.mean([layer[:, ROWS][:, :, places].sum(-1).mean() for layer in weights]) if places else 0.0
        assert row["share"] == pytest.approx(expected, abs=1e-5)
    learned = answer["run"][0]["learned_sink"]
    assert sum(row["share"] for row in answer["parts"]) + learned == pytest.approx(1, abs=1e-5)
    assert (learned > 0.01) == (kind == "gpt_oss")
    assert sum(row["non_sink_share"] for row in answer["parts"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss", "gptj"])
def test_what_is_hidden_equals_whole_passes_with_a_written_mask(kind: str, everywhere: bool) -> None:
    source = speaking_source(kind)
    answer, prompt = read(source, everywhere=everywhere)
    n = len(prompt.tokens)
    plain = masked_log2_p(source, prompt, (), ())
    best = int(plain.argmax())
    assert best == answer["answer"][0]["id"]
    for part, effect in zip(PARTS, effects_of(answer), strict=True):
        after = [row for row in range(n) if part.tokens and row > part.tokens[0] and row not in part.tokens]
        hidden = masked_log2_p(source, prompt, after if everywhere else ROWS, hidden_keys(answer, part))
        assert effect == pytest.approx(float(hidden[best] - plain[best]), abs=1e-4), part.name
    assert effects_of(answer)[1] == 0
    assert (answer["run"][0]["run_mode"], answer["run"][0]["no_cache_reason"]) == ("cache", "")
    assert max(map(abs, effects_of(answer))) > 0.01


@pytest.mark.parametrize(("kind", "attention"), [("jamba", "self_attn"), ("bloom", "self_attention")])
def test_hidden_from_attention_beside_other_mixers_and_under_alibi(kind: str, attention: str) -> None:
    """The mask is given to the attention modules themselves, for the model's own hides padding from Mamba, too."""
    source = speaking_source(kind)
    answer, prompt = read(source)
    model, n = source.loaded.generating, len(prompt.tokens)
    assert model is not None
    best = answer["answer"][0]["id"]
    plain = log2_p(model, source.reader.arguments([prompt]))[-1]
    for part, effect in zip(PARTS, effects_of(answer), strict=True):
        with Masked(model, attention, hidden_mask(ROWS, hidden_keys(answer, part), n)):
            hidden = log2_p(model, source.reader.arguments([prompt]))[-1]
        assert effect == pytest.approx(float(hidden[best] - plain[best]), abs=1e-4), part.name
    assert max(map(abs, effects_of(answer))) > 0.01


def test_parts_of_many_rows_are_hidden_from_all_that_follow() -> None:
    """Runs of more rows than stand side by side, each from the end of its part on."""
    source, n = speaking_source("gemma2"), 62
    prompt = prompt_of([9 + 7 * at % 90 for at in range(n)])
    bounds = [0, 3, 9, 10, 40, n]
    parts = [TextPart(f"part {at}", (), tuple(range(*bounds[at : at + 2]))) for at in range(5)]
    answer = read_parts(source, prompt, parts, everywhere=True)
    plain, best = masked_log2_p(source, prompt, (), ()), answer["answer"][0]["id"]
    for part, effect in zip(parts, effects_of(answer), strict=True):
        hidden = masked_log2_p(source, prompt, range(part.tokens[-1] + 1, n), hidden_keys(answer, part))
        assert effect == pytest.approx(float(hidden[best] - plain[best]), abs=1e-4), part.name
    assert answer["run"][0]["run_mode"] == "cache"
    some = read_parts(source, prompt, parts, everywhere=True, selection=Selection((1,), (0, 2)))
    experiment = source.experiment(prompt, everywhere=True)  # whole passes
    rows = tuple(range(9, n))
    blind = Change(hidden=parts[1].tokens, rows=rows, hidden_from=Selection((1,), (0, 2)))
    (outcome,) = experiment.outcomes([blind])
    assert effects_of(some)[1] == pytest.approx(outcome.bits, abs=1e-5)


@pytest.mark.parametrize("kind", ["gpt_oss", "bloom"])
def test_hiding_from_some_heads_alone_and_what_no_row_sees(kind: str) -> None:
    """Parts after the rows change nothing; all heads chosen is as none chosen; the layers' numbers are the model's."""
    source, prompt = speaking_source(kind), prompt_of()
    early = read_parts(source, prompt, PARTS, rows=(2, 3))
    for part, row in zip(PARTS, rows_of(early), strict=True):
        if part.tokens and min(part.tokens) > 3:
            assert row["share"] == pytest.approx(0, abs=1e-7), part.name
            assert abs(row["hidden_bits"]) <= 4 * early["run"][0]["noise"], part.name
    layer = source.experiment(prompt).layers[-1].layer
    whole = read_parts(source, prompt, PARTS, rows=ROWS, selection=Selection((layer,)))
    by_name = read_parts(source, prompt, PARTS, rows=ROWS, selection=Selection((layer,), (0, 1, 2, 3)))
    one = read_parts(source, prompt, PARTS, rows=ROWS, selection=Selection((layer,), (1,)))
    assert effects_of(whole) == pytest.approx(effects_of(by_name), abs=1e-6)
    assert effects_of(whole) != pytest.approx(effects_of(one), abs=1e-6)
    weights = eager_weights(source, prompt)[-1][1, list(ROWS)]
    for part, row in zip(PARTS, rows_of(one), strict=True):
        assert row["share"] == pytest.approx(weights[:, list(part.tokens)].sum(-1).mean(), abs=1e-5)


def test_an_encoder_is_asked_for_its_mean_vector(minilm: LoadedModel) -> None:
    source = ModelSource(minilm)
    prompt = source.read(["he sat on the river bank"])[0]
    parts = parts_of(prompt, "words")
    answer = read_parts(source, prompt, parts)
    assert answer["run"][0]["queries_from"] == "all" and not answer["answer"]
    with torch.no_grad():
        plain = minilm.model(**source.reader.arguments([prompt]))["last_hidden_state"][0].double().mean(0)
    for part, row in zip(parts, rows_of(answer), strict=True):
        real = torch.ones(1, len(prompt.tokens), dtype=torch.long)
        real[0, list(part.tokens)] = 0  # as padding: nobody sees it
        with torch.no_grad():
            vectors = minilm.model(**source.reader.arguments([prompt]), attention_mask=real)["last_hidden_state"][
                0
            ].double()
        mean = vectors[real[0].bool()].mean(0)
        expected = 1 - float(torch.nn.functional.cosine_similarity(plain, mean, dim=0))
        assert row["hidden_cosine_distance"] == pytest.approx(expected, abs=1e-5), part.name
    distances = {row["name"]: row["hidden_cosine_distance"] for row in answer["parts"]}
    assert distances["special"] == max(distances.values())
    given = [name for name in distances if name != "special"]
    assert list(distances) == [*sorted(given, key=lambda name: -distances[name]), "special"]


def test_an_encoder_decoder_reads_with_its_decoder() -> None:
    source = speaking_source("t5")
    prompt = prompt_of(decoder=(0, 11, 12))
    answer = read_parts(source, prompt, PARTS)
    assert (answer["run"][0]["stream"], answer["run"][0]["queries_from"]) == ("cross", "all")
    assert [row["row"] for row in answer["rows"]] == [0, 1, 2]
    model, n = source.loaded.generating, len(prompt.tokens)
    assert model is not None
    with torch.no_grad(), all_named(model, "eager"):
        weights = model(**source.reader.arguments([prompt]), output_attentions=True)["cross_attentions"]
    by_key = np.mean([layer[0].double().numpy().mean((0, 1)) for layer in weights], axis=0)  # [m]
    assert [row["share"] for row in rows_of(answer)] == pytest.approx(
        [by_key[list(part.tokens)].sum() for part in PARTS], abs=1e-5
    )
    best, plain = answer["answer"][0]["id"], log2_p(model, source.reader.arguments([prompt]))[-1]
    for part, effect in zip(PARTS, effects_of(answer), strict=True):
        mask = torch.zeros(1, 1, 3, n)
        mask[..., list(part.tokens)] = torch.finfo(torch.float32).min
        with Masked(model, "EncDecAttention", mask):
            hidden = log2_p(model, source.reader.arguments([prompt]))[-1]
        assert effect == pytest.approx(float(hidden[best] - plain[best]), abs=1e-4), part.name
    assert max(map(abs, effects_of(answer))) > 1e-3
    everywhere = read_parts(source, prompt, PARTS, everywhere=True)
    assert effects_of(everywhere) != pytest.approx(effects_of(answer))


def cut_prompt(text: str, *, written: int = 0) -> Prompt:
    """A token for every run of letters, and one for every other character but the space, after an added one."""
    tokens = [Token(0, "<s>", special=True)]
    place = 0
    while place < len(text):
        end = place + 1
        while text[place].isalnum() and end < len(text) and text[end].isalnum():
            end += 1
        if text[place] != " ":
            generated = place >= len(text) - written
            tokens.append(Token(len(tokens), text[place:end], 5, place, end, generated=generated))
        place = end
    generated = Generated(text[len(text) - written :], 1, False, len(text) - written) if written else None
    return Prompt(text, tuple(tokens), generated=generated)


def texts(prompt: Prompt, parts: tuple[TextPart, ...]) -> list[str]:
    return [part.text(prompt.text) for part in parts if part.kind == "given"]


@pytest.mark.parametrize(
    ("cut", "text", "pieces"),
    [
        ("lines", "one two\nthree\r\n\n  \nfour", ["one two\n", "three\r\n\n  \n", "four"]),
        ("lines", "\n\none\ntwo\n", ["\n\none\n", "two\n"]),
        ("paragraphs", "one\ntwo\n\n \nthree", ["one\ntwo\n\n \n", "three"]),
        ("sentences", 'He left. "Why?" she said. Dr. Who\ncame at 3.5 p.m. to A. Bee! So?',
         ["He left. ", '"Why?" she said. ', "Dr. Who\ncame at 3.5 p.m. to A. Bee! ", "So?"]),
        ("sentences", "你好。再见！", ["你好。", "再见！"]),
        ("words", "one two, three", ["one ", "two", ", ", "three"]),
    ],
)  # fmt: skip
def test_pieces(cut: str, text: str, pieces: list[str]) -> None:
    prompt = cut_prompt(text)
    assert texts(prompt, parts_of(prompt, cut)) == pieces


def test_blank_lines_are_counted() -> None:
    assert [part.name for part in parts_of(cut_prompt("one\n\ntwo"), "lines")] == ["special", "line 1", "line 3"]


@pytest.mark.parametrize("cut", ["lines", "paragraphs", "sentences", "words"])
@pytest.mark.parametrize("written", [0, 9])
def test_every_token_is_in_one_part(cut: str, written: int) -> None:
    prompt = cut_prompt("A cat. It sat, so\nthere. \n\nThe end.\nYes. No.\n", written=written)
    parts = parts_of(prompt, cut)
    assert sorted(index for part in parts for index in part.tokens) == list(range(len(prompt.tokens)))
    assert "".join(part.text(prompt.text) for part in parts) == prompt.text
    kinds = [part.kind for part in parts]
    assert kinds == sorted(kinds, key=["other", "given", "generated"].index)
    for part in parts:
        for index in part.tokens:
            token = prompt.tokens[index]
            assert token.generated == (part.kind == "generated")
            assert (token.start is None) == (part.name == "special")
            assert token.start is None or any(start <= token.start < end for start, end in part.spans)


def test_the_last_part_is_what_asks_and_all_after_it() -> None:
    prompt = cut_prompt("A fact.\nA question?\nYes", written=3)
    assert [prompt.tokens[row].text for row in rows_of_last(prompt, parts_of(prompt, "lines"))] == [
        "A", "question", "?", "\n",
    ]  # fmt: skip


def test_messages_are_found_in_the_order_of_the_chat() -> None:
    text = "<sys>Be short.</s><user>Hi Hi</s><bot>Hi</s><user>Bye</s>"
    messages = [("system", "Be short."), ("user", " Hi Hi\n"), ("assistant", "Hi"), ("user", "Bye")]
    spans = message_spans(text, [MessageText(role, (content,)) for role, content in messages])
    assert [(span.name, text[span.start : span.end]) for span in spans] == [
        ("system", "Be short."), ("user 1", "Hi Hi"), ("assistant", "Hi"), ("user 2", "Bye"),
    ]  # fmt: skip
    prompt = cut_prompt(text)
    parts = named_parts(prompt, spans)
    assert sorted(index for part in parts for index in part.tokens) == list(range(len(prompt.tokens)))
    (template,) = [part for part in parts if part.name == "template"]
    assert template.text(text) == "<sys></s><user></s><bot></s><user></s>"
    with pytest.raises(InputError, match="message 2"):
        message_spans(text, [MessageText("user", ("Bye",)), MessageText("assistant", ("Hi",))])
