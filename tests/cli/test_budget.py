"""attn budget: key heads by what a window costs them, on every width, in every format; wrong use is one line."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.architectures.tiny import tiny_model
from tests.media import WORDS, tokenizer
from tests.program import attn, refused
from tests.summaries.budget.oracle import small_llama
from tests.views.test_schemas import hold

LENGTH = 120
TEXT = " ".join(np.random.default_rng(0).choice(WORDS, LENGTH))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama: 2 layers of 2 key heads."""
    folder = tmp_path_factory.mktemp("budget") / "llama"
    small_llama().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_screen_begins_with_the_plan_and_maps_all_heads(llama: Path, width: int) -> None:
    run = attn("budget", TEXT, "-m", llama, terminal=True, env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert run.code == 0
    assert run.columns <= width
    result = attn("budget", TEXT, "-m", llama, "--json").json["result"]
    text = " ".join(run.text.split())
    dearest = max(result["units"], key=lambda unit: unit["bits"])
    named = f"{dearest['layer']}.{dearest['key_head']} loses most: {dearest['bits']:.3f} bits a token"
    assert f"with a window one at a time, {named}" in text
    plan = result["plan"]
    (held,) = plan["held"]
    assert plan["taken"] > 0 and (held["text"]["scored"], held["text"]["tokens"]) == (16, 121)
    of_held = f"{abs(held['bits']):.3f} ± {held['error']:.3f} bits a token {_way(held['bits'], held['error'])}"
    of_own = f"{abs(plan['bits']):.3f} {_way(plan['bits'])} on the 16 tokens that the plan was made on"
    said = f"a window for {plan['taken']} of 4 key heads: cache {plan['cache']:.0%}, "
    assert f"{said}{of_held} on 16 tokens held back from the plan; {of_own}" in text
    assert not re.search(r"lost:? -0|-0\.\d+ (bits a token )?lost", text), "a gain that is called a loss"
    assert "took the work of " in text and "- a gain of 0.001 or more" in text
    assert "105 tokens, the last 16 scored; 16 more held back" in text
    assert "window: the last 16 keys of a key head" in text and "its first 4, which are often a sink" in text
    assert "not run on a text of another kind" in text
    assert width < 200 or "--heads 1/3" in run.lines[-1]


def _way(bits: float, error: float = -1.0) -> str:
    """Lost or gained, and whether that is no more than the standard error `error`; -1: none is known."""
    return ("gained" if round(bits, 3) < 0 else "lost") + (" (no more than its error)" if abs(bits) <= error else "")


def test_data_has_every_key_head(llama: Path, tmp_path: Path) -> None:
    narrow = ("--window", "8", "--first", "2")
    run = attn("budget", TEXT, "-m", llama, *narrow, "--json")
    hold(run, "budget")
    result = run.json["result"]
    units = result["units"]
    assert [(unit["layer"], unit["key_head"]) for unit in units] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (result["window"], result["first"], result["run_mode"]) == (8, 2, "cache")
    assert all(0 < unit["weight_behind"] < 1 and unit["spread"] is None for unit in units)
    assert result["texts"][0]["tokens"] + result["plan"]["held"][0]["text"]["scored"] == LENGTH + 1
    table = attn("budget", TEXT, "-m", llama, *narrow, "-f", "csv").lines
    assert table[0] == "taken,layer,key_head,bits,spread,weight_behind,in_plan"
    assert [float(line.split(",")[3]) for line in table[1:]] == [unit["bits"] for unit in units]
    assert attn("budget", TEXT, "-m", llama, *narrow, "-o", tmp_path / "a.npz").code == 0
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["bits"].tolist() == [unit["bits"] for unit in units]
        assert arrays["in_plan"].sum() == result["plan"]["taken"]


def test_rounding_by_layer_and_together(llama: Path) -> None:
    run = attn("budget", TEXT, "-m", llama, "--kv", "q4_0/f16", "--target", "9", "--json")
    hold(run, "budget")
    result = run.json["result"]
    assert [(unit["taken"], unit["layer"], unit["key_head"]) for unit in result["units"]] == [
        ("keys", 0, None), ("keys", 1, None)
    ]  # fmt: skip
    (both,) = result["rounded"]
    assert both["format"] == "q4_0" and both["keys"] != both["values"]
    assert result["plan"]["bits"] == pytest.approx(both["keys"], abs=1e-5)  # all keys, as the target is wide
    assert result["plan"]["cache"] == pytest.approx((4.5 + 16) / 32)
    assert result["plan"]["by_weight"] is None
    screen = attn("budget", TEXT, "-m", llama, "--kv", "q4_0/f16", "--target", "9")
    assert "q4_0 keys of all layers: cache 64%" in " ".join(screen.text.split())


def test_top_keys_are_priced_and_save_no_cache(llama: Path) -> None:
    run = attn("budget", TEXT, "-m", llama, "--top-keys", "4", "--json")
    hold(run, "budget")
    assert [unit["taken"] for unit in run.json["result"]["units"]] == ["top"] * 4
    assert run.json["result"]["plan"] is None
    assert "the 4 keys of the highest scores" in " ".join(
        attn("budget", TEXT, "-m", llama, "--top-keys", "4").text.split()
    )


def test_other_texts_and_files_for_engines(llama: Path, tmp_path: Path) -> None:
    for name, seed in (("b", 1), ("c", 2), ("other", 3)):
        (tmp_path / f"{name}.txt").write_text(" ".join(np.random.default_rng(seed).choice(WORDS, LENGTH)))
    more = ("--also", tmp_path / "b.txt", "--also", tmp_path / "c.txt", "--check", tmp_path / "other.txt")
    run = attn("budget", TEXT, "-m", llama, *more, "--engines", tmp_path / "plan", "--json")
    hold(run, "budget")
    result = run.json["result"]
    assert [text["name"] for text in result["texts"]] == ["", str(tmp_path / "b.txt"), str(tmp_path / "c.txt")]
    assert all(unit["spread"] > 0 for unit in result["units"])
    (checked,) = result["plan"]["checked"]
    assert checked["text"]["name"] == str(tmp_path / "other.txt")
    names = {"engines.txt", "full_attention_heads.tsv", "config.json", "kvpress.json"}
    assert {file.name for file in (tmp_path / "plan").iterdir()} == names
    assert "wrote engines.txt" in run.errors
    refused(attn("budget", TEXT, "-m", llama, "--engines", tmp_path / "plan"), 5, "is not empty")
    screen = " ".join(attn("budget", TEXT, "-m", llama, *more, "--no-pager").text.split())
    assert "the plan on its own tokens of each text: " in screen
    assert "3 texts, 315 tokens, 48 scored; 48 more held back" in screen
    way = _way(checked["bits"], checked["error"])
    elsewhere = f"{abs(checked['bits']):.3f} ± {checked['error']:.3f} bits a token {way} on "
    assert f"%, {elsewhere}" in screen, "another text comes first"
    held = [row["bits"] for row in result["plan"]["held"]]
    of_held = f"{abs(np.mean(held)):.3f} ± "
    way = rf"{_way(np.mean(held))}( \(no more than its error\))?"
    assert re.search(f"other.txt; {of_held}[0-9.]+ {way} on 48 tokens held back from the plan", screen)


@pytest.mark.parametrize(("share", "taken"), [("1/4", 1), ("50%", 2), ("3/4", 3)])
def test_a_plan_takes_the_share_of_key_heads_that_loses_least(llama: Path, share: str, taken: int) -> None:
    run = attn("budget", TEXT, "-m", llama, "--window", "8", "--heads", share, "--json")
    hold(run, "budget")
    result = run.json["result"]
    assert result["plan"]["taken"] == taken == sum(unit["in_plan"] for unit in result["units"])
    assert result["plan"]["target_heads"] == taken / 4 and result["plan"]["is_within"]
    if taken == 1:
        least = min(result["units"], key=lambda unit: unit["bits"])
        assert [unit["in_plan"] for unit in result["units"]] == [unit is least for unit in result["units"]]


def test_a_plan_for_heads_is_followed_by_its_files_for_engines(llama: Path) -> None:
    run = attn("budget", TEXT, "-m", llama, "--heads", "1/2", terminal=True, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert "--heads 1/2 --engines plan" in run.lines[-1]
    assert "a window for 2 of 4 key heads: " in run.text
    data = attn("budget", TEXT, "-m", llama, "--heads", "1/2", "--json").json["result"]["units"]
    windowed = [(unit["layer"], unit["key_head"]) for unit in data if unit["in_plan"]]
    (listed,) = re.findall(r"with a window, layer: key heads · (.*)", run.text)
    named = [own.split(": ") for own in listed.split("  ")[0].split(" · ")]
    assert [(int(layer), int(head)) for layer, heads in named for head in heads.split()] == windowed


def test_a_text_too_short_to_hold_some_of_it_back_says_so(llama: Path) -> None:
    short = " ".join(TEXT.split()[:55])
    screen = " ".join(attn("budget", short, "-m", llama, "--heads", "1/2").text.split())
    assert "56 tokens, the last 16 scored" in screen
    assert "too short to hold tokens back: give a longer text" in screen
    assert "on the 16 tokens that the plan was made on" in screen and "held back from the plan" not in screen
    assert attn("budget", short, "-m", llama, "--heads", "1/2", "--json").json["result"]["plan"]["held"] == []


def test_layers_are_chosen(llama: Path) -> None:
    result = attn("budget", TEXT, "-m", llama, "-l", "1", "--no-plan", "--json").json["result"]
    assert {unit["layer"] for unit in result["units"]} == {1}
    assert result["plan"] is None and result["key_heads"] == 2


def test_latent_vectors_are_layers_and_a_plan_may_take_nothing(tmp_path: Path) -> None:
    tiny_model("deepseek_v3", "tiny").save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    short = " ".join(np.random.default_rng(3).choice(WORDS, LENGTH)[:50])
    screen = " ".join(attn("budget", short, "-m", tmp_path, "--window", "12").text.split())
    assert "nothing that was tried loses 0.01 bits a token or less: the plan keeps the whole cache" in screen
    assert "2 layers · 51 tokens" in screen and "each layer with its last 12 keys and 4 first" in screen
    assert "attend least beyond them" not in screen
    wide = attn("budget", short, "-m", tmp_path, "--window", "12", "--target", "9")
    assert "a window for 2 of 2 layers: cache 31%" in " ".join(wide.text.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "toy"), "attn budget runs a model"),
        (("-H", "0.1"), "--head chooses query heads"),
        (("-l", "9"), "there is no layer 9"),
        (("--window", "120"), "hides no key"),
        (("--scored", "200"), "too few to score 200"),
        (("--image", "x.png"), "priced on a text"),
        (("--lines",), "a line is too short"),
        (("--kv", "q9"), "no cache format is called 'q9'"),
        (("--kv", "f16/f16"), "rounds nothing"),
        (("--target", "0.1", "--memory", "20"), "target and memory at once"),
        (("--heads", "1/3", "--memory", "20"), "memory and heads at once"),
        (("--heads", "9"), "heads is '9', no share of all"),
        (("--heads", "4/3"), "heads is '4/3', no share of all"),
        (("--heads", "1/3", "--kv", "q8_0"), "heads are planned for windows"),
        (("--no-plan", "--memory", "20"), "--no-plan and an option of plans"),
        (("--no-plan", "--heads", "1/3"), "--no-plan and an option of plans"),
    ],
)
def test_wrong_use_is_one_line(llama: Path, options: tuple[str, ...], words: str) -> None:
    refused(attn("budget", TEXT, "-m", llama, *options), 2, words)
