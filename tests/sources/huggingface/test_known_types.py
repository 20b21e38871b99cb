"""The register of model types: names that exist, each entry with something to say, and no second register."""

import ast
from pathlib import Path

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

import attn_cli.sources.huggingface
from attn_cli.sources.huggingface import known_types
from tests.releases import skip_on_older

_FACTS = [names for fact, names in vars(known_types).items() if fact[0] != "_" and isinstance(names, frozenset | dict)]
TYPES = sorted({name for names in _FACTS for name in names})
HOUSE = Path(attn_cli.sources.huggingface.__file__).parent
FILES = sorted(path for path in HOUSE.rglob("*.py") if path.name != "known_types.py")


def names_of_types(code: str) -> list[str]:
    """A file's knowledge of single model types: registered names as strings, and tests of a `model_type`."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [node.value for node in nodes if isinstance(node, ast.Constant) and str(node.value) in TYPES]
    looking: list[ast.AST] = [node for node in nodes if isinstance(node, ast.Compare | ast.Match)]
    looking += [node.slice for node in nodes if isinstance(node, ast.Subscript)]
    looking += [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return [str(name) for name in names] + [ast.unparse(x) for x in looking if "model_type" in ast.unparse(x)]


@pytest.mark.parametrize("name", TYPES)
def test_every_name_is_a_type_of_transformers(name: str) -> None:
    if name not in CONFIG_MAPPING_NAMES:
        skip_on_older(f"it has no {name} yet")
    assert name in CONFIG_MAPPING_NAMES


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_no_other_file_knows_single_types(file: Path) -> None:
    assert names_of_types(file.read_text("utf-8")) == []
