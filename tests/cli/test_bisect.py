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


@pytest.mark.parametrize(("mistake", "layers"), [("scale-missing", None), ("scale-missing@1", [1])])
def test_hidden_states_alone_show_a_mistake_in_the_layer_before(
    mistake: str, layers: list[int] | None, model: Any, folder: str, tmp_path: Path
) -> None:
    weights, settings = llama_port(model)
    arrays = Port(weights, planted(settings, mistake)).run(IDS)
    before = ["0.residual_in", "0.residual", "1.residual"]
    hidden = {f"{layer}.residual_in": arrays[name] for layer, name in enumerate(before)}
    result = found(dumped(tmp_path / "d.npz", hidden, IDS), folder)
    assert (result["first"]["layer"], result["first"]["station"]) == (2 if layers else 1, "residual_in")
    assert [(each["name"], each["layers"]) for each in result["mistakes"]] == [("scale-missing", layers)]
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


def test_tokens_of_another_model_are_one_line(folder: str, tmp_path: Path) -> None:
    dump = dumped(tmp_path / "d.npz", {"0.mlp": np.ones((40, 32), np.float32)}, IDS + 60)
    refused(attn("bisect", dump, "-m", folder), 2, "has the id", "and the model has 64 tokens")


def test_embeddings_of_other_tokens_are_wrong(model: Any, folder: str, tmp_path: Path) -> None:
    seen = Port(*llama_port(model)).run(IDS)
    result = found(dumped(tmp_path / "d.npz", seen, np.roll(IDS, 5)), folder)
    assert result["first"]["name"] == "0.residual_in"


def test_arrays_of_another_model_are_one_line(folder: str, tmp_path: Path) -> None:
    other = {"layers.0.q_projected": np.ones((40, 96), np.float32)}
    refused(attn("bisect", dumped(tmp_path / "d.npz", other, IDS), "-m", folder), 2, "no array", "40 x 96")


def test_an_unknown_station_of_map_is_named(folder: str, tmp_path: Path) -> None:
    refused(attn("bisect", "d.npz", "-m", folder, "--map", "x=y"), 2, "--map x=y names no station")
    refused(attn("bisect", "d.npz", "-m", folder, "--map", "x=q"), 2, "--map x=q names no layer")


def test_a_document_says_the_finding_before_its_table(model: Any, folder: str, tmp_path: Path) -> None:
    weights, settings = llama_port(model)
    dump = dumped(tmp_path / "d.npz", Port(weights, planted(settings, "gate-up-swapped")).run(IDS), IDS)
    lines = attn("bisect", dump, "-m", folder, "-f", "md").lines
    finding = next(at for at, line in enumerate(lines) if "MLP" in line and "differs at every position" in line)
    assert any("gate and up are in each other" in line for line in lines[finding:])
    assert any(line.startswith("| layers") or "mlp |" in line for line in lines[finding:])


def test_mistakes_of_one_layer_and_two_at_once(model: Any, folder: str, tmp_path: Path) -> None:
    weights, settings = llama_port(model)
    for wrong, names in (
        (("norm-kind",), ["norm-kind"]),
        (("qkv-order",), ["qkv-order"]),
        (("rotary-pairs", "mask-missing"), ["rotary-pairs", "mask-missing"]),
        (("head-tied",), ["head-tied"]),
    ):
        result = found(dumped(tmp_path / "d.npz", Port(weights, planted(settings, *wrong)).run(IDS), IDS), folder)
        assert [mistake["name"] for mistake in result["mistakes"]] == names
        assert result["explains_all"]


def test_axes_may_be_joined_or_have_the_heads_first_and_other_names_are_mapped(
    model: Any, folder: str, tmp_path: Path
) -> None:
    seen = Port(*llama_port(model)).run(IDS)
    arrays = {f"Qcur-{i}": seen[f"{i}.q_rotated"].reshape(40, 32) for i in range(3)}
    arrays |= {f"layers.{i}.k_rotated": seen[f"{i}.k_rotated"].swapaxes(0, 1)[None] for i in range(3)}
    arrays |= {f"layers.{i}.v": seen[f"{i}.v"][None] for i in range(3)}
    arrays |= {"logits": seen["logits"][-1:], "noise": seen["0.residual"], "0.heads": seen["0.heads"][:, :1]}
    dump = dumped(tmp_path / "d.npz", arrays, IDS)
    result = found(dump, folder, "--map", "Qcur-{layer}=q_rotated")
    rows = {row["name"]: row for row in result["arrays"]}
    assert result["verdict"] == "equal" and len(rows) == 3 * 3 + 1
    assert (rows["Qcur-1"]["layer"], rows["Qcur-1"]["station"]) == (1, "q_rotated")
    assert (rows["logits"]["first_position"], rows["logits"]["positions"]) == (39, 1)
    why = {row["name"]: row["why"] for row in result["unplaced"]}
    assert why == {
        "noise": "its name says no station",
        "0.heads": "heads' output has 4 heads of 8 for each of 40 positions",
    }
    few = found(dump, folder, "--until", "0")
    assert {row["name"] for row in few["arrays"]} == {"layers.0.k_rotated", "layers.0.v"}


def test_a_joint_projection_is_held_against_its_parts(model: Any, folder: str, tmp_path: Path) -> None:
    seen: dict[str, np.ndarray] = {}
    weights, settings = llama_port(model)
    for layer in range(3):
        x = Port(weights, settings).run(IDS)[f"{layer}.normed"]
        parts = [x @ weights[f"{layer}.{part}.w"].T for part in ("q", "k", "v")]
        seen[f"{layer}.qkv_projected"] = np.concatenate(parts, -1)
    result = found(dumped(tmp_path / "d.npz", seen, IDS), folder)
    assert {(row["station"], row["wrong"]) for row in result["arrays"]} == {("qkv_projected", False)}


def test_nan_is_a_finding(model: Any, folder: str, tmp_path: Path) -> None:
    seen = Port(*llama_port(model)).run(IDS)
    seen["1.mlp"][7] = np.nan
    result = found(dumped(tmp_path / "d.npz", seen, IDS), folder)
    assert (result["first"]["layer"], result["first"]["station"]) == (1, "mlp")
    assert result["first"]["where"] == "differs at position 7 · NaN or Inf"


def test_bfloat16_is_read_off_the_numbers(model: Any, folder: str, tmp_path: Path) -> None:
    weights, settings = llama_port(model)
    result = found(
        dumped(tmp_path / "d.npz", Port(weights, replace(settings, precision="bfloat16")).run(IDS), IDS), folder
    )
    assert (result["verdict"], result["precision"]) == ("equal", "bfloat16")
