"""Every face names the same heads of a text, and none whose targets get less than a tenth of its rows' weight."""

from pathlib import Path

import pytest

from attn_cli.recording import Recording
from tests.cli.test_one_screen import MARY, SMOL
from tests.explore.test_session import session
from tests.program import attn
from tests.views.webpage.test_build import document

TEXT = f"{MARY} John. {MARY} John."  # said twice: rows enough to name heads that find content


@pytest.mark.usefixtures("loads_once")
def test_all_faces_name_the_same_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("inspect", TEXT, "-m", SMOL, "-o", "run.attn").code == 0
    Path("text.txt").write_text(f"{TEXT}\n")
    assert attn("scan", "text.txt", "-m", SMOL, "-o", "scan").code == 0
    inspected = attn("inspect", TEXT, "-m", SMOL, "--json").json["tables"]
    expected = named(inspected["kinds"])
    assert (17, 5) in expected["induction"]
    for arguments in (("inspect", "-m", "run.attn"), ("heads", TEXT, "--kinds", "-m", SMOL),
                      ("heads", "--kinds", "--file", "text.txt", "-m", SMOL)):  # fmt: skip
        answer = attn(*arguments, "--json").json
        assert named(answer["tables"]["kinds"]) == expected
    assert named(attn("scan", "show", "scan", "--json").json["tables"]["heads"]) == expected

    made = session(Recording.load("run.attn"))
    outs = [(out.call, out.at, out.weight) for out in made.scene.judge().outs]
    (matrix,), story = inspected["matrices"], inspected
    word = story["needs"][0]
    brings = next(head for head in story["brought_by"] if word["key"] <= head["key"] < word["key"] + word["tokens"])
    assert (brings["layer"], brings["head"]) == (matrix["layer"], matrix["heads"][0])
    assert min(weight for *_, weight in outs) >= 0.1
    assert attn("inspect", "-m", "run.attn", "-o", "page.html").code == 0
    page, opening = document(Path("page.html").read_bytes()), made.scene.opening
    place = brings["layer"], brings["head"]  # every layer is recorded, with all its heads
    assert tuple(page["start"]) == (opening.at, opening.head) == place and opening.key == brings["key"]
    assert [(head["layer"], head["head"]) for head in page["work"]["heads"]] == [out[:2] for out in outs]


def named(heads: list[dict]) -> dict[str, set[tuple[int, int]]]:  # type: ignore[type-arg]
    found: dict[str, set[tuple[int, int]]] = {"induction": set(), "duplicate": set()}
    for head in heads:
        if head["kind"] in found:
            found[head["kind"]].add((head["layer"], head["head"]))
    return found
