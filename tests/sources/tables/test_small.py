"""The pencil-and-paper tables give the numbers that their room promises."""

import pytest

from attn_cli.errors import ExitCode, InputError
from attn_cli.sources.tables import TABLE_NAMES, open_table


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_table_is_whole(name: str) -> None:
    table = open_table(name)
    assert table.name == name
    assert table.vectors.shape[0] == len(table.words)
    assert table.vectors.shape[1] % table.heads == 0
    assert (table.q is None) == (table.k is None)
    assert [table.index(word) for word in table.words] == list(range(len(table.words)))


def test_a_word_is_found_in_any_case_its_own_first() -> None:
    table = open_table("my-name-is-ankit")
    assert table.index("Ankit") == table.index("ankit") == table.index("ANKIT") == 3
    assert table.index("mine") is None


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        open_table("minilmm")
    assert caught.value.message == "no built-in table is named 'minilmm'"
    assert all(name in caught.value.hint for name in TABLE_NAMES)
    assert caught.value.code == ExitCode.USAGE
