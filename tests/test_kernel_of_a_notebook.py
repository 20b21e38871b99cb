"""Cells of a notebook, run by a real Jupyter kernel: each result is shown once."""

import asyncio
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.program import SHORT, environment

CELLS = {
    "inspect": 'attn_cli.inspect("he sat on the river bank")',
    "heads": 'attn_cli.heads("he sat on the river bank")',
    "top": 'attn_cli.top("he sat on the river bank", token="bank")',
    "matrix": 'attn_cli.matrix("he sat on the river bank")',
    "summary": 'attn_cli.matrix("he sat").report.summaries[0]',
    "recording": 'attn_cli.record("he sat on the river bank")',
    "head": 'attn_cli.record("he sat on the river bank").head(0, 0)',
    "swapped": 'attn_cli.head_kinds(attn_cli.open_source(), "he sat")',
    "error": 'attn_cli.top("he sat", token="zebra")',
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("kernel")
    cells = [nbformat.v4.new_code_cell(code) for code in ("import attn_cli", *CELLS.values())]
    book = nbformat.v4.new_notebook(cells=cells)
    variables = environment(
        PYTHONPATH=os.fspath(Path(__file__).parent.parent),
        IPYTHONDIR=os.fspath(folder),
        JUPYTER_RUNTIME_DIR=os.fspath(folder),
    )
    client = NotebookClient(book, timeout=SHORT, kernel_name="python3", allow_errors=True)
    asyncio.run(client.async_execute(env=variables))
    assert not book.cells[0].outputs
    return dict(zip(CELLS, [cell.outputs for cell in book.cells[1:]], strict=True))


@pytest.mark.parametrize("name", [name for name in CELLS if name not in ("error", "swapped")])
def test_a_result_is_one_output_as_text_and_drawn(name: str, outputs: dict[str, list[Any]]) -> None:
    assert [output.output_type for output in outputs[name]] == ["execute_result"]
    data = outputs[name][0].data
    assert set(data) == {"text/plain", "image/svg+xml" if name == "head" else "text/html"}
    assert "layer" in data["text/plain"] and len(data["text/plain"].splitlines()) > 4


def test_an_error_ends_in_its_hint(outputs: dict[str, list[Any]]) -> None:
    (error,) = outputs["error"]
    assert error.output_type == "error"
    first, hint = error.evalue.split("\n")
    assert "zebra" in first and "he" in hint


def test_the_old_order_is_told_the_new_one(outputs: dict[str, list[Any]]) -> None:
    (error,) = outputs["swapped"]
    assert error.ename == "TypeError" and "the text comes first, then the model" in error.evalue
