"""Without compiled code the padded walk answers what a scan asks: nothing is left to the slow way."""

from pathlib import Path

import pytest

from attn_cli.kernel.stats import padded
from attn_cli.kernel.stats.wanted import Wanted
from attn_cli.packed_call import PackedCall
from attn_cli.scans.scan import scan
from tests.real_models import MINILM


def test_a_scan_asks_what_is_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, asked = padded._is_known, list[bool]()

    def noted(wanted: Wanted) -> bool:
        asked.append(known(wanted))
        return asked[-1]

    monkeypatch.setattr(padded, "_is_known", noted)
    monkeypatch.setattr(PackedCall, "compiled_stats", lambda call, wanted: None)  # as where nothing was compiled
    lines = tmp_path / "lines.txt"
    lines.write_text("he sat on the river bank\nthe bank gave me a loan of money\n" * 4)
    scan(str(MINILM), str(lines), str(tmp_path / "scan"))
    assert asked and all(asked)
