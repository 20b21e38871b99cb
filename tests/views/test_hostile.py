"""Text from outside moves no cursor, changes no colour, hides nothing; JSON keeps it exactly."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares, TopKeys
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing import figure, panels
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from attn_cli.views.writers import data
from attn_cli.views.writers.page import PAGE, to_html
from tests.program import attn, strict_json

HOSTILE = {
    "markup": "[bold]river[/bold] [/] [link=http://a]bank[/link]",
    "colour": "river \x1b[31mred\x1b[0m bank",
    "title": "river \x1b]0;owned\x07 bank",
    "link": "river \x1b]8;;http://a\x1b\\bank\x1b]8;;\x1b\\",
    "c1": "river \x9b31m bank \x85",
    "bidi": "river \u202eknab\u202c \u2066bank\u2069 \u200f",
    "joiner": "river \u200d bank\u200b \ufeff 👩\u200d💻 ❤\ufe0f",
    "filler": "river \u3164 \u115f bank \U000e0041 \U000e0101",
    "nul": "river \0 bank",
    "control": "river\tbank\r\nriver\x08\x7f\vbank",
    "separator": "river\u2028bank\u2029river\xa0bank",
    "html": "river <script>alert(1)</script> & \"bank\" 'bank' ]]>",
    "percent": "river %s {0} {name} $HOME `id` bank",
    "csv": '=river,"bank"\n;bank',
}
_INVISIBLE = re.compile(
    "[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u034f\u115f\u1160\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def harmless(text: str) -> None:
    assert not _INVISIBLE.search(text), ascii(text)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", ["inspect", "top"])
def test_a_text_is_shown_harmless_and_kept_exactly(command: str, text: str) -> None:
    run = attn(command, text)
    assert run.code == 0
    harmless(run.text)
    harmless(run.errors)
    assert attn(command, text, "--json").json["input"]["text"] == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_colourful_screen_has_our_escapes_and_no_others(text: str) -> None:
    screen = attn("inspect", text, env={"COLORTERM": "truecolor", "FORCE_COLOR": "1"}).text
    assert "\x1b[" in screen
    harmless(re.sub(r"\x1b\[[0-9;]*m", "", screen))


def _every_way_to_fail(text: str) -> list[list[str]]:
    return [
        ["top", "zzqqy " + text, "-m", "toy:the-cat-sat"],
        ["top", "river bank", "--token", text],
        ["top", "river bank", "--token", f"{text}#2"],
        ["top", "river bank", "--layer", text],
        ["top", "river bank", "--head", text],
        ["top", "river bank", "--top", text],
        ["matrix", "river bank", "--color-scale", text],
        ["top", "river bank", "--format", text],
        ["top", "river bank", "--output", f"/no/such/folder/{text}.json"],
        ["top", "river bank", "--output", f"a.{text}"],
        ["top", "river bank", "--file", text],
        ["top", "--file", text],
        ["top", "river bank", "-m", f"toy:{text}"],
        ["top", "river bank", "-m", f"./{text}"],
        ["top", "river bank", f"--{text}"],
        ["top", "river bank", text],
        [text],
        ["schema", text],
        ["compute", "--q", text],
        ["compute", "--q", f"{text}.npz:{text}"],
        ["compute", "--q", "q.npy", "--mask", text],
        ["compute", "--q", "q.npy", "--scale", text],
        ["compute", "--q", "q.npy", "--positions", text],
    ]


@pytest.mark.parametrize("name", [*HOSTILE, "surrogate"])
def test_errors_are_harmless(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.eye(2))
    before = sorted(Path().iterdir())
    text, first = HOSTILE.get(name, "half \udc9b bank"), [*HOSTILE, "surrogate"].index(name) % 3
    for arguments in _every_way_to_fail(text)[first::3]:  # a third of the ways with each text, in turn
        run = attn(*arguments)
        assert run.code in (2, 3, 5), (arguments, run)
        assert run.bytes == b"", arguments
        assert 1 <= len(run.errors.splitlines()) <= 2, run.errors
        harmless(run.errors)
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("nul", "html", "link", "markup")])
def test_a_file_name_is_shown_harmless(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.eye(2))
    text = HOSTILE[name]
    np.save(f"{text}.npy", np.array([[1, np.nan]]))
    Path(f"{text}.csv").write_text("1,0\n1,1\n")
    harmless(attn("compute", "--q", f"{text}.npy").errors)
    run = attn("compute", "--q", "q.npy", "--mask", f"{text}.csv")
    assert run.code == 0
    harmless(run.errors + run.text)
    harmless(attn("compute", "--q", "q.npy", "--mask", f"{text}.csv", "-o", f"{text}.json").errors)
    assert strict_json(Path(f"{text}.json").read_bytes())["warnings"][0].startswith(f"{text}.csv: read as")


def reports(texts: list[str]) -> list[Report]:
    """One report per command about a model and tokens that are called `texts`, every second one generated by it."""
    tokens = tuple(Token(i, text, i, 0, len(text), generated=i % 2 == 1) for i, text in enumerate(texts))
    x = np.eye(len(texts))[None]
    call = AttentionCall(x, x, x, Rule(1.0), Place(0, texts[0], (0,), (0,)), tokens, tokens)
    source = {"model": texts[0], "type": "bert", "revision": texts[0], "dtype": "float32", "device": "cpu"}
    prompt = Prompt(" ".join(texts), tokens, tuple(texts), generated=Generated(" ".join(texts), len(texts) // 2, True))
    parts = {
        "inspect": [HeadStatistics(), ReceivedShares(), MatrixOf()],
        "matrix": [MatrixOf(kinds=("weights", "scores"))],
        "top": [TopKeys(3)],
        "heads": [HeadStatistics()],
    }
    return [
        Report(command, source, (prompt,), (reduce(call, *reducers),), tuple(texts))
        for command, reducers in parts.items()
    ]


ALL = [*HOSTILE.values(), "half \udc9b bank", "\ud83d", "", " "]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_tokens_and_models_of_any_name_are_shown_harmless(width: int, ascii_only: bool) -> None:
    for report in reports(ALL):
        text = render(report, Screen(width, "none", ascii_only))
        harmless(text)
        assert not ascii_only or text.isascii()


def test_pages_hold_no_foreign_markup() -> None:
    drawn = [HeatMap(np.eye(len(ALL)), "weights", ALL[0], ALL, ALL, PAGE)]
    for page in (to_html(reports(ALL)), figure.drawn(400, "svg", partial(panels.maps, drawn=drawn))):
        harmless(page.decode())
        assert b"<script" not in page
        assert b"<a " not in page
        assert b"&lt;script&gt;" in page


def test_data_keeps_tokens_exactly() -> None:
    for report in reports(ALL):
        document = strict_json(data.to_json(report))
        assert [token["text"] for token in document["input"]["tokens"]] == ALL
        assert document["about"]["model"] == ALL[0]
        assert document["warnings"] == ALL
        for line in data.to_jsonl(report).splitlines():
            strict_json(line)
        data.to_table(report, ",", header=True).decode()
        data.archive(data.arrays_of(report))


def test_every_character_is_shown_as_something_harmless() -> None:
    for start in (*range(0, 0x20000, 0x1000), 0xE0000, 0xF0000, 0x10F000):  # between lie planes of one kind alone
        characters = [chr(code) for code in range(start, start + 0x1000) if code != 10]
        text = visible("".join(characters))
        harmless(text)
    assert visible("a\nb\u202e\ud800\x9b") == "a␊b<U+202E>\\ud800<U+009B>"
