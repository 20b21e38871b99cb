"""Defaults from six ATTN_* variables: options win over them, --help shows them, and what they can't be is named."""

from tests.program import attn, refused

ENTRY = ["matrix", "he sat on the river bank", "-H", "0"]


def test_an_option_wins_over_its_variable() -> None:
    env = {"ATTN_COLOR_SCALE": "log", "FORCE_COLOR": "1"}
    assert "log scale" in attn(*ENTRY, env=env).text
    assert "sqrt scale" in attn(*ENTRY, "--color-scale", "sqrt", env=env).text
    assert "toy:the-cat-sat" in attn("inspect", "the cat", env={"ATTN_MODEL": "toy:the-cat-sat"}).text


def test_a_switch_is_turned_on_by_1_and_off_by_0() -> None:
    warned = attn("heads", "the rivre bank", env={"ATTN_QUIET": "0"}).errors
    assert "rivre" in warned
    assert attn("heads", "the rivre bank", env={"ATTN_QUIET": "1"}).errors == ""


def test_a_model_is_for_commands_that_take_one() -> None:
    variables = {"ATTN_MODEL": "./no-such-model"}
    refused(attn("inspect", "the cat", env=variables), 3, "./no-such-model")
    assert attn("nearest", "cat", "-k", "1", env=variables).code == 0


def test_what_a_variable_cannot_be_is_named_with_it() -> None:
    refused(attn(*ENTRY, env={"ATTN_COLOR_SCALE": "no"}), 2, "ATTN_COLOR_SCALE", "'no' is not one of 'linear', 'raw'")


def test_help_shows_the_variables() -> None:
    page = attn("inspect", "--help").text
    for name in ("MODEL", "DEVICE", "DTYPE", "COLOR_SCALE", "QUIET"):
        assert f"[env var: ATTN_{name}" in " ".join(page.split())
