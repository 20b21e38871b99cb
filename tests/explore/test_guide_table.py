"""The table of keys in attn guide explore is that of the commands."""

from attn_cli.explore.commands import COMMANDS
from attn_cli.explore.pane_table import NAMES
from tests.test_guide import PAGES


def test_every_key_has_its_row() -> None:
    page = PAGES["explore"].read_text("utf-8")
    for each in COMMANDS:
        if each.meaning:
            where = "all" if each.panes == NAMES else ", ".join(each.panes)
            row = f"| `{each.shown or f':{each.name} N'}` | {each.meaning} | {where} |"
            assert row in page, row
