"""attn bisect: dumps of plain NumPy ports, right and with mistakes, and dumps that are none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bisect.ports import LLAMA3, Port, dumped, frequencies_of, llama, llama_port, planted, saved
from tests.program import attn, refused
from tests.views.test_schemas import validator

IDS = np.random.default_rng(5).integers(0, 64, 40)


@pytest.fixture(scope="module")
def model() -> Any:
    return llama(rope_parameters=LLAMA3)


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(model, tmp_path_factory.mktemp("llama"))


def found(dump: str, folder: str, *more: str) -> dict[str, Any]:
    run = attn("bisect", dump, "-m", folder, *more, "--json")
    assert run.code in (0, 1), run.errors
    validator("bisect").validate(run.json)
    result: dict[str, Any] = run.json["result"]
    assert run.code == (0 if result["verdict"] == "equal" else 1), run.errors
    return result


def test_a_right_port_is_equal_at_every_station(model: Any, folder: str, tmp_path: Path) -> None:
    result = found(dumped(tmp_path / "d.npz", Port(*llama_port(model)).run(IDS), IDS), folder)
    assert (result["verdict"], result["precision"], result["unplaced"]) == ("equal", "float32", [])
    assert len(result["arrays"]) == 3 * 9 + 3
    assert {row["station"] for row in result["arrays"]} >= {"q_rotated", "heads", "attention", "mlp", "logits"}


def test_missing_rope_scaling_is_named_and_nothing_else_is_wrong(model: Any, folder: str, tmp_path: Path) -> None:
    weights, settings = llama_port(model)
    plain = replace(settings, frequencies=frequencies_of({"rope_theta": 10_000.0}, settings.width // 2))
    result = found(dumped(tmp_path / "d.npz", Port(weights, plain).run(IDS), IDS), folder)
    assert (result["first"]["layer"], result["first"]["station"]) == (0, "q_rotated")
    assert result["first"]["where"].startswith("differs from position")
    assert [mistake["name"] for mistake in result["mistakes"]] == ["rope-scaling-missing"]
    assert (result["explains_all"], result["still_wrong"]) == (True, None)


def test_the_screen_names_place_and_cause(model: Any, folder: str, tmp_path: Path) -> None:
    weights, settings = llama_port(model)
    dump = dumped(tmp_path / "d.npz", Port(weights, planted(settings, "scale-missing@1")).run(IDS), IDS)
    run = attn("bisect", dump, "-m", folder)
    assert run.code == 1
    assert "layer 1 heads' output differs" in run.text
    assert "likely cause in layer 1 alone: the scale is missing" in run.text
    assert run.columns <= 80


def test_a_dump_without_tokens_needs_a_text(model: Any, folder: str, tmp_path: Path) -> None:
    dump = dumped(tmp_path / "d.npz", {"x": np.ones((3, 32), np.float32)})
    refused(attn("bisect", dump, "-m", folder), 2, "holds no tokens, and no text is given")


def lying(file: Path) -> str:
    """An .npy whose header promises a terabyte."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**18)}
    with file.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, header)
        out.write(b"\0" * 64)
    return str(file)


def test_a_header_of_a_terabyte_is_one_line(folder: str, tmp_path: Path) -> None:
    run = attn("bisect", lying(tmp_path / "x.npy"), "text", "-m", folder)
    refused(run, 2, "the header promises 1,099,511,627,776 bytes, 64 are there")


def test_arrays_of_another_model_are_one_line(folder: str, tmp_path: Path) -> None:
    other = {"layers.0.self_attn.q_proj": np.ones((40, 96), np.float32)}
    refused(attn("bisect", dumped(tmp_path / "d.npz", other, IDS), "-m", folder), 2, "no array", "40 x 96")


def test_an_unknown_station_of_map_is_named(folder: str, tmp_path: Path) -> None:
    refused(attn("bisect", "d.npz", "-m", folder, "--map", "x=y"), 2, "--map x=y names no station")
