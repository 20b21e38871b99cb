"""Every command's JSON is strict, holds to its published schema, and the schemas notice what is wrong."""

import copy
import json
import re
from collections.abc import Callable
from hashlib import sha256

import jsonschema
import pytest

from attn_cli.views.schemas import schema_names, schema_text, shape_of
from tests.program import Run, attn, strict_json

TEXT = "the bank of the river bank"


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(strict_json(attn("schema", name).bytes))


def hold(run: Run, name: str) -> None:
    """Every line of `run` is strict JSON that `attn schema NAME` describes."""
    assert run.code == 0, run.errors
    lines = run.bytes.splitlines()
    assert lines
    for line in lines:
        validator(name).validate(strict_json(line))


@pytest.mark.parametrize("name", schema_names)
def test_schemas_are_schemas_and_say_what_everything_is(name: str) -> None:
    shown = attn("schema", name)
    schema = strict_json(shown.bytes)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"]["const"] == schema["$id"] == shape_of(name).id
    assert re.fullmatch(rf"attn\.{name}/\d", shape_of(name).id)
    assert attn("schema", shape_of(name).id).bytes == shown.bytes
    rows = [table["items"] for table in schema["properties"]["tables"]["properties"].values()]
    for field, description in (pair for row in rows for pair in row["properties"].items()):
        assert description.get("description") or description["items"]["description"], field


def test_no_schema_changes_unnoticed(golden: Callable[[str, str], None]) -> None:
    """The SHA-256 of every schema.

    Whoever adds a field records the new sums with --update-golden. Whoever removes a field, renames it, or gives its
    values another type, unit or meaning, raises the number in the "id" of its SHAPE, too.
    """
    sums = {name: sha256(schema_text(name).encode()).hexdigest() for name in schema_names}
    golden("schemas.txt", "".join(f"{digest}  {shape_of(name).id}\n" for name, digest in sums.items()))


COMMANDS = ("inspect", "matrix", "top", "heads")
OPTIONS = ([], ["-m", "toy:my-name-is-ankit-projected"], ["-H", "0"])
ASKED = [[command, *options] for command in COMMANDS for options in OPTIONS]
ASKED += [["matrix", "--mean"], ["matrix", "--scores"], ["matrix", "-t", "cat"], ["top", "--mean"], ["top", "-k", "99"]]


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_answers_on_tables_hold(asked: list[str]) -> None:
    hold(attn(asked[0], "The cat is down my name", "--json", "--quiet", *asked[1:]), asked[0])


@pytest.mark.parametrize("command", ["inspect", "matrix", "top", "heads"])
def test_a_schema_notices_what_is_missing_or_of_another_type(command: str) -> None:
    good = attn(command, TEXT, "--json").json
    check = validator(command)
    for spoil in (
        lambda x: x.pop("warnings"),
        lambda x: x.update(schema="attn.other/1"),
        lambda x: x["about"].pop("dtype"),
        lambda x: x["input"]["tokens"][0].update(index="0"),
        lambda x: x["input"]["tokens"][0].pop("start"),
        lambda x: x.pop("findings"),
        lambda x: x["tables"]["layers"][0].pop("scale"),
        lambda x: x["tables"].update(new=[]),
        lambda x: next(reversed(x["tables"].values()))[0].pop("layer"),
        lambda x: next(reversed(x["tables"].values()))[0].update(layer="0"),
    ):
        bad = copy.deepcopy(good)
        spoil(bad)
        assert not check.is_valid(bad)
    more = json.loads(json.dumps(good))
    more["new"] = 1  # a new field keeps the number
    assert check.is_valid(more)
