"""--chat: the template's text, its special tokens once, and what is wrong said in a line."""

import json
from pathlib import Path
from shutil import copytree

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import attn_cli
from tests.architectures.tiny import tiny_model
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.sources.huggingface.folders import edited_config

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<s> {{ m['role'] }} {{ m['content'] }} </s> {% endfor %}{% if add_generation_prompt %}<s> assistant{% endif %}"
)
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "system", "user", "assistant", "be", "brief", "hi", "there", "yes", "no"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama whose tokenizer starts every text with <s>, and has a template."""
    folder = tmp_path_factory.mktemp("chat")
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        add_bos_token=True,
    )  # fmt: skip
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    tiny_model("llama", "tiny").save_pretrained(folder)
    return folder


def text(*arguments: object) -> str:
    run = attn("top", *arguments, "--json")
    assert run.code == 0, run.errors
    shown: str = run.json["input"]["text"]
    return shown


def test_a_text_is_a_users_message(model: Path) -> None:
    assert text("hi there", "-m", model, "--chat") == "<s> user hi there </s> <s> assistant"
    long = f"{'h' * 300} m.json"  # no file's name is as long
    assert text(long, "-m", model, "--chat") == f"<s> user {long} </s> <s> assistant"


def test_special_tokens_are_those_of_the_template_and_no_more(model: Path) -> None:
    tokens = attn("top", "hi", "-m", model, "--chat", "--json").json["input"]["tokens"]
    assert [token["text"] for token in tokens] == ["<s>", "user", "hi", "</s>", "<s>", "assistant"]
    assert [token["special"] for token in tokens] == [True, False, False, True, True, False]


def test_what_is_wrong_with_a_chat(model: Path, tmp_path: Path) -> None:
    refused(attn("top", "hi", "-m", MINILM, "--chat"), 2, "has no chat template")
    refused(attn("top", "hi", "--chat"), 2, "--chat is for models")
    refused(attn("top", "hi", "-m", model, "--chat", "--pair", "no"), 2, "--pair")
    refused(attn("top", "hi", "-m", model, "--chat", "-F", tmp_path / "none.json"), 2, "No such file")
    half = "has half of a surrogate pair at character"
    for content, words in (
        ("{", "m.json can't be read"),
        ("[]", "no list of messages"),
        ('[{"role": 1}]', "message 0 has no role"),
        (r'[{"role": "user", "content": "hi \ud800!"}]', f"content of message 0 {half} 3"),
        (r'[{"role": "\udc00", "content": "hi"}]', f"role of message 0 {half} 0"),
    ):
        (tmp_path / "m.json").write_text(content)
        refused(attn("top", "hi", "-m", model, "--chat", "-F", tmp_path / "m.json"), 2, words)
    (tmp_path / "m.json").write_text('[{"role": "tool", "content": "x"}]')
    assert "m.json looks like a chat: --chat" in attn("top", "-m", model, "-F", tmp_path / "m.json").errors
    refused(attn("top", "hi", "-m", model, "--chat", "-F", tmp_path / "m.json"), 2, "no tools here")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for", "unexpected 'end of template'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% for i in range(10**9) %}x{% endfor %}", "Range too big"),
        ("{{ messages.__class__.__mro__ }}", "is unsafe"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ],
)
def test_a_template_that_fails_is_told_in_a_line(template: str, words: str, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    copytree(model, folder)
    (folder / "chat_template.jinja").write_text(template)
    refused(attn("top", "hi", "-m", folder, "--chat"), 2, words)


CALLS = [{"id": "1", "type": "function", "function": {"name": "yes", "arguments": {"there": "no"}}}]
CONVERSATION = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]},
    {"role": "assistant", "content": "hi", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "1", "name": "yes", "content": "no"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "user", "content": "there"},
]
TOOLS = [{"type": "function", "function": {"name": "yes", "parameters": {"type": "object"}}}]
OF_TOOLS = (
    "{% if tools %}<s> {{ tools | tojson }} </s> {% endif %}"
    "{% for m in messages %}<s> {{ m | tojson }} </s> {% endfor %}"
    "{% if add_generation_prompt %}<s> assistant{% if enable_thinking is false %} be{% endif %}{% endif %}"
)


@pytest.fixture(scope="module")
def calling(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calling") / "model"
    copytree(model, folder)
    (folder / "chat_template.jinja").write_text(OF_TOOLS)
    return edited_config(folder, max_position_embeddings=256)


def rendered(folder: Path, messages: object, **arguments: object) -> str:
    made: str = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, **arguments
    )
    return made


def test_the_template_gets_every_field_as_it_stands_in_the_file(calling: Path, tmp_path: Path) -> None:
    whole, lines = tmp_path / "m.json", tmp_path / "m.jsonl"
    whole.write_text(json.dumps({"messages": CONVERSATION, "tools": TOOLS, "temperature": 0.7}))
    lines.write_text("\n".join(map(json.dumps, CONVERSATION)))
    right = rendered(calling, CONVERSATION, tools=TOOLS)
    assert text("-m", calling, "--chat", "-F", whole) == text(whole, "-m", calling, "--chat") == right
    assert text("-m", calling, "--chat", "-F", lines) == rendered(calling, CONVERSATION) != right
    in_python = attn_cli.top("", str(calling), chat={"messages": CONVERSATION, "tools": TOOLS})
    assert in_python.report.prompts[0].text == right
    parts = attn("parts", "-m", calling, "--chat", "-F", whole, "--cut", "roles", "--answer", "yes", "--json").json
    written = [part["text"] for part in parts["tables"]["parts"] if part["name"] == "assistant 1"]
    assert written == [right[right.index('hi", "tool_calls') : right.index('no"}}}]')] + "no"]


def test_a_template_is_given_arguments(calling: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"tools": TOOLS, "enable_thinking": True}))
    hi, chat = [{"role": "user", "content": "hi"}], ("hi", "-m", calling, "--chat")
    shown = text(*chat, "--arg", tmp_path / "a.json", "--arg", "enable_thinking=False")
    assert shown == rendered(calling, hi, tools=TOOLS, enable_thinking=False)
    assert text(*chat, "--arg", "enable_thinking=no") == rendered(calling, hi)  # which isn't false to this template
    refused(attn("top", "hi", "-m", calling, "--arg", "style=x"), 2, "add --chat")
    refused(attn("top", *chat, "--arg", "style"), 2, "--arg style sets nothing")
    refused(attn("top", *chat, "--arg", 'style=["\\ud83d"]'), 2, "[0] has half of a surrogate pair")


def test_a_template_that_walks_over_parts_gets_the_text_as_a_part(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    copytree(model, folder)
    of_parts = TEMPLATE.replace(
        "{{ m['content'] }}", "{% for x in m['content'] if x.type == 'text' %}{{ x.text }}{% endfor %}"
    )
    (folder / "chat_template.jinja").write_text(of_parts)
    said = [{"role": "user", "content": [{"type": "text", "text": "hi there"}]}]
    assert text("hi there", "-m", folder, "--chat") == rendered(folder, said) == "<s> user hi there </s> <s> assistant"
    fails = "{% for m in messages %}<s> {{ m.role + ' ' + (m.content if m.role == 'user' else '') }}{% endfor %}"
    (folder / "chat_template.jinja").write_text(fails)
    (tmp_path / "m.json").write_text('[{"role": "system", "content": "be brief"}]')
    run = attn("top", "hi", "-m", folder, "--chat", "-F", tmp_path / "m.json", "--json").json
    assert run["input"]["text"] == "<s> system <s> user hi"
    assert run["warnings"] == ["the chat template leaves out words of the messages: be, brief"]
