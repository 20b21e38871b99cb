"""Lines printed past Rich equal those that Rich prints."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.text import Text

from attn_cli.views.drawing.console import console_for, printed
from attn_cli.views.drawing.screen import Screen

WORDS = st.text(st.sampled_from("ab  \n\t中é[]\u200d█"), max_size=70)
TEXTS = st.builds(
    lambda words, style, end, justify, wrap: Text(words, style, end=end, justify=justify, no_wrap=wrap),
    WORDS,
    st.sampled_from(["", "bold", "dim", "red"]),
    st.sampled_from(["\n", "\n", "\n", "", " "]),
    st.sampled_from([None, None, None, "right", "center"]),
    st.sampled_from([None, None, True, False]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.just("")), max_size=4), st.integers(20, 60), st.sampled_from(["none", "truecolor"]))
@example([Text("a\tb")], 20, "none")
@example([Text("a " * 15)], 20, "none")
@example([Text("中" * 10 + "b")], 20, "none")
@example([Text("a", end="")], 20, "none")
@example([Text("a", justify="right")], 20, "none")
def test_a_part_is_printed_as_rich_prints_it(parts: list[Text | str], width: int, depth: str) -> None:
    screen = Screen(width=width, depth=depth)
    rich = console_for(screen)
    for part in parts:
        rich.print(part, soft_wrap=False, crop=True)
    lines = rich.file.getvalue().split("\n")  # type: ignore[attr-defined]
    assert printed(parts, screen) == "\n".join(line.rstrip() if depth == "none" else line for line in lines)
