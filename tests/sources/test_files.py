"""A matrix from outside: every format read the same, every bad file refused in one line."""

import codecs
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from attn_cli.errors import AttnError, ExitCode, InputError, LimitError
from attn_cli.sources.files import checks, raw
from attn_cli.sources.files.array_file import read_array, widened_from

Q = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(spec, *, name="q", stdin=None, kind=InputError, **options) -> AttnError:
    """The error of a bad input, after checking that it is one line and one hint."""
    with pytest.raises(kind) as caught:
        read_array(spec, name=name, stdin=stdin, **options)
    return one_line(caught.value)


def one_line(error: AttnError) -> AttnError:
    for text in (error.message, error.hint):
        assert text.isprintable(), text
        assert text, "every refusal says what to do next"
        assert "allow_pickle" not in text
    assert len(error.message) < 400
    return error


def text(content, name="q.csv"):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def tensors(entries, body=b"", name="q.safetensors"):
    """A .safetensors file by hand: {name: (dtype, shape)} in order, or the bytes of a header."""
    header = entries
    if isinstance(entries, dict):
        end, whole = 0, {}
        for key, (dtype, shape, size) in entries.items():
            whole[key] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        header = json.dumps(whole).encode()
    Path(name).write_bytes(struct.pack("<Q", len(header)) + header + body)
    return name


def npy_bytes(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npy_header(shape: str, dtype: str = "'<f4'", body: bytes = b"") -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


# What is read


def save_npy(path, array):
    np.save(path, array)


def save_npz(path, array):
    np.savez(path, array)


def save_csv(path, array):
    np.savetxt(path, array, delimiter=",")


def save_tsv(path, array):
    np.savetxt(path, array, delimiter="\t")


def save_txt(path, array):
    np.savetxt(path, array, header="a comment")


def save_json(path, array):
    Path(path).write_text(json.dumps(array.tolist()))


def save_safetensors(path, array):
    safetensors.numpy.save_file({"any": array}, path)


SAVERS = {f".{save.__name__.removeprefix('save_')}": save for save in (
    save_npy, save_npz, save_csv, save_tsv, save_txt, save_json, save_safetensors
)}  # fmt: skip


@pytest.mark.parametrize("suffix", SAVERS)
def test_every_format_gives_the_same_numbers(suffix):
    SAVERS[suffix](f"q{suffix}", Q)
    read = read_array(f"q{suffix}", name="q")
    np.testing.assert_array_equal(read, Q)
    assert read.dtype == np.float64
    assert type(read) is np.ndarray
    assert not read.flags.writeable


@pytest.mark.parametrize("suffix", SAVERS)
def test_without_a_suffix_the_first_bytes_decide_and_on_stdin_too(suffix):
    SAVERS[suffix](f"q{suffix}", Q)
    Path(f"q{suffix}").rename("q")
    np.testing.assert_array_equal(read_array("q", name="q"), Q)
    np.testing.assert_array_equal(read_array("-", name="q", stdin=io.BytesIO(Path("q").read_bytes())), Q)


@given(array=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-9, 9)))
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_what_is_saved_is_read_bit_for_bit(array):
    for suffix in (".npy", ".npz", ".json", ".safetensors"):
        SAVERS[suffix](f"q{suffix}", array)
        np.testing.assert_array_equal(read_array(f"q{suffix}", name="q"), array)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_keep_their_size(dtype):
    np.save("q.npy", Q.astype(dtype))
    assert read_array("q.npy", name="q").dtype == dtype


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool", "longdouble"])
def test_the_rest_becomes_float64(dtype):
    np.save("q.npy", Q.astype(dtype))
    read = read_array("q.npy", name="q")
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, Q.astype(dtype).astype(float))


def test_bool_stays_for_a_mask():
    may = np.array([[True, False], [True, True]])
    np.save("mask.npy", may)
    Path("mask.json").write_text("[[true, false], [true, true]]")
    for spec in ("mask.npy", "mask.json"):
        read = read_array(spec, name="mask")
        assert read.dtype == bool
        np.testing.assert_array_equal(read, may)


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i4"])
def test_byte_order_does_not_matter(dtype):
    np.save("q.npy", Q.astype(dtype))
    read = read_array("q.npy", name="q")
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, Q.astype(dtype).astype(float))


def test_columns_stored_one_by_one():
    np.save("q.npy", np.asfortranarray(Q))
    np.testing.assert_array_equal(read_array("q.npy", name="q"), Q)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_npy(version):
    with Path("q.npy").open("wb") as file:
        np.lib.format.write_array(file, Q, version=version)
    np.testing.assert_array_equal(read_array("q.npy", name="q"), Q)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base if isinstance(array, np.ndarray) else None
    return array is not None


def test_a_large_file_is_mapped_a_small_one_read(monkeypatch):
    np.save("q.npy", Q)
    save_safetensors("q.safetensors", Q)
    assert not is_mapped(read_array("q.npy", name="q"))
    monkeypatch.setattr(raw, "MAP_FROM", 10)
    for spec in ("q.npy", "q.safetensors"):
        read = read_array(spec, name="q")
        assert is_mapped(read)
        np.testing.assert_array_equal(read, Q)


def test_a_pipe_with_a_name():
    os.mkfifo("pipe")
    with subprocess.Popen([sys.executable, "-c", "open('pipe', 'w').write('1 2\\n3 4')"]):
        np.testing.assert_array_equal(read_array("pipe", name="q"), [[1, 2], [3, 4]])


# Several arrays in one file


def test_a_pipe_is_not_read_again_for_its_precision(here):
    os.mkfifo(here / "pipe.safetensors")
    assert widened_from("pipe.safetensors", name="q") is None  # it would wait for ever
    assert widened_from("-", name="q") is None
    assert widened_from("nothing", name="q") is None


def test_the_role_picks_the_array():
    np.savez("heads.npz", Query=Q, K=Q + 1, value=Q + 2, W_Q=Q + 3, mask=Q + 4)
    safetensors.numpy.save_file({"Query": Q, "K": Q + 1, "value": Q + 2, "W_Q": Q + 3, "mask": Q + 4}, "h.safetensors")
    for file in ("heads.npz", "h.safetensors"):
        for added, role in enumerate(["q", "k", "v", "wq", "mask"]):
            np.testing.assert_array_equal(read_array(file, name=role), Q + added)


def test_the_exact_name_comes_before_its_likes():
    np.savez("heads.npz", Q=Q, q=Q + 1, query=Q + 2)
    np.testing.assert_array_equal(read_array("heads.npz", name="q"), Q + 1)


def test_a_name_after_a_colon():
    np.savez("heads.npz", a=Q, b=Q + 1)
    safetensors.numpy.save_file({"layer.0": Q, "layer:1": Q + 1}, "h.safetensors")
    Path("h.json").write_text('{"a": [[0]], "b": [[1, 2]], "note": "text"}')
    for spec in ("heads.npz:b", "h.safetensors:layer:1"):
        np.testing.assert_array_equal(read_array(spec, name="q"), Q + 1)
    np.testing.assert_array_equal(read_array("h.json:b", name="q"), [[1, 2]])
    stdin = io.BytesIO(Path("heads.npz").read_bytes())
    np.testing.assert_array_equal(read_array("-:b", name="q", stdin=stdin), Q + 1)


def test_a_file_may_have_a_colon_in_its_name():
    np.save("q:1.npy", Q)
    np.testing.assert_array_equal(read_array("q:1.npy", name="q"), Q)


def test_which_array_is_meant_must_be_clear():
    np.savez("heads.npz", alpha=Q, beta=Q)
    error = refused("heads.npz")
    assert error.message == "heads.npz holds 2 arrays and it isn't clear which is q: alpha, beta"
    assert error.hint == "choose one: heads.npz:NAME"
    error = refused("heads.npz:bata")
    assert error.message == "heads.npz has no array called 'bata'"
    assert error.hint == "did you mean beta? it holds alpha, beta"


def test_a_name_where_there_are_none():
    np.save("q.npy", Q)
    text("[[1]]", "q.json")
    assert refused("q.npy:a").message == "q.npy holds one array and no names"
    assert refused("q.json:a").message == "q.json holds one array and no names"


def test_a_member_that_points_elsewhere_is_only_a_name(here):
    with zipfile.ZipFile("q.npz", "w") as archive:
        archive.writestr("../../evil\n\x1b.npy", npy_bytes(Q))
    before = set(here.parent.iterdir())
    np.testing.assert_array_equal(read_array("q.npz", name="q"), Q)
    assert set(here.parent.iterdir()) == before
    refused("q.npz:\x1b[31m")


# Shapes, dtypes, finite numbers


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "q.npy: q has shape (); expected at least 2 axes [n, d]"),
        ((4,), "q.npy: q has shape (4,); expected at least 2 axes [n, d]"),
        ((0, 4), "q.npy: q has shape (0, 4): no rows"),
        ((4, 0), "q.npy: q has shape (4, 0): no columns"),
        ((0, 3, 4), "q.npy: q has shape (0, 3, 4): axis 0 is empty"),
        ((1,) * 9, "q.npy: q has 9 axes, at most 8 make sense"),
    ],
)
def test_shapes_that_are_no_matrix(shape, message):
    np.save("q.npy", np.ones(shape))
    error = refused("q.npy")
    assert error.message == message
    if shape == (4,):
        assert error.hint == "one row: q.reshape(1, -1); one column: q.reshape(-1, 1)"


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.ones((2, 2), np.complex64), "complex64"),
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[b"a"]]), "|S1"),
        (np.array([["2020-01-01"]], "datetime64[D]"), "datetime64[D]"),
        (np.ones((2, 2), [("a\nb", float)]), "[('a\\nb', '<f8')]"),
        (np.ones((2, 2)).view("V2"), "|V2"),
    ],
)
def test_dtypes_that_are_no_numbers(array, dtype):
    np.save("q.npy", array)
    error = refused("q.npy")
    assert error.message == f"q.npy has dtype {dtype}"
    assert ("safetensors" in error.hint) == (dtype == "|V2")


def test_nan_and_inf_are_counted_and_the_first_is_placed():
    array = np.zeros((3, 4))
    array[1, 3], array[2, 0], array[2, 2] = np.nan, np.inf, np.nan
    np.save("q.npy", array)
    error = refused("q.npy")
    assert error.message == "q.npy: 2 NaN and 1 Inf among 12 numbers, the first at [1, 3]"
    assert error.hint == "--allow-nonfinite keeps them"
    np.testing.assert_array_equal(read_array("q.npy", name="q", allow_nonfinite=True), array)


def test_a_mask_may_hold_minus_infinity():
    mask = np.array([[0, -np.inf], [0, 0]])
    np.save("mask.npy", mask)
    np.testing.assert_array_equal(read_array("mask.npy", name="mask"), mask)
    refused("mask.npy", name="q")
    np.save("mask.npy", -mask)
    assert refused("mask.npy", name="mask").message == "mask.npy: 1 Inf among 4 numbers, the first at [0, 1]"


@given(
    array=hnp.arrays(np.float32, (2, 3, 4), elements=st.sampled_from([0, 1, np.nan, np.inf, -np.inf])),
    chunk=st.integers(1, 30),
    fortran=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_the_pieces_of_the_finite_check_do_not_matter(array, chunk, fortran):
    bad = np.argwhere(~np.isfinite(array))
    stored = np.asfortranarray(array) if fortran else array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "_CHUNK", chunk)
        if not len(bad):
            checks.require_finite(stored, "q", "q.npy")
            return
        with pytest.raises(InputError) as caught:
            checks.require_finite(stored, "q", "q.npy")
    counts = {"NaN": int(np.isnan(array).sum()), "Inf": int(np.isinf(array).sum())}
    said = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
    assert caught.value.message == f"q.npy: {said} among 24 numbers, the first at {bad[0].tolist()}"


def test_a_long_double_beyond_float64_is_infinite():
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long double is float64 here")
    np.save("q.npy", np.array([[np.finfo(np.longdouble).max, 1]]))
    assert refused("q.npy").message == "q.npy: 1 Inf among 2 numbers, the first at [0, 0]"


# Text


@pytest.mark.parametrize(
    "content",
    [
        "1,2,3\n4,5,6.5",
        "1, 2, 3\r\n4, 5, 6.5\r\n",
        codecs.BOM_UTF8 + b"1,2,3\n4,5,6.5\n",
        "1,2,3\n4,5,6.5\n".encode("utf-16"),
        "\n1,2,3\n\n4,5,6.5\n\n",
        "# from a run\n1,2,3\n4,5,6.5\n",
        "x,y,z\n1,2,3\n4,5,6.5\n",
        '"x","y","z"\n"1","2","3"\n4,5,6.5\n',
        "1;2;3\n4;5;6.5\n",
        "1;2,0;3\n4;5;6,5\n",
        "a.x;a.y;a.z\n1;2,0;3\n4;5;6,5\n",
        "1\t2\t3\n4\t5\t6.5\n",
        "1 2  3\n 4 5 6.5\n",
        "1e0,+2,3.\n4,5,65e-1",
    ],
)
@pytest.mark.parametrize("name", ["q.csv", "q.txt"])
def test_ways_to_write_the_same_table(content, name):
    np.testing.assert_array_equal(read_array(text(content, name), name="q"), Q)


def test_one_row_and_one_column_are_matrices():
    assert read_array(text("1,2,3"), name="q").shape == (1, 3)
    assert read_array(text("1\n2\n3\n"), name="q").shape == (3, 1)
    assert read_array(text("x\n1\n2\n3\n"), name="q").shape == (3, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n\n4,5\n", "q.csv line 3 has 2 cells, line 1 has 3"),
        ("1,2\n3,4,5\n", "q.csv line 2 has 3 cells, line 1 has 2"),
        ("1,2\n3,four\n", "q.csv line 2, column 2: 'four' is not a number"),
        ("1,x\n3,4\n", "q.csv line 1, column 2: 'x' is not a number"),
        ("1,2\n3,1_0\n", "q.csv line 2, column 2: '1_0' is not a number"),
        ("1;2,5\n3;4,x\n", "q.csv line 2, column 2: '4,x' is not a number"),
        ("1;2,5\n3;4.5\n", "q.csv line 1, column 2: '2,5' is not a number"),
        ('"1,5","2,5"\n', "q.csv line 1, column 1: '\"1' is not a number"),
        ("1,2\n3,\n", "q.csv line 2, column 2 is empty"),
        ("NA,NA\n1,2\n", "q.csv line 1, column 1: 'NA' is not a number"),
        ("1_0,2_0\n1,2\n", "q.csv line 1, column 1: '1_0' is not a number"),
        (",0,1\n0,.1,.2\n", "q.csv line 1, column 1 is empty"),
        ('"a" "b"\n"1" .1 .2\n', "q.csv line 2 has 3 cells, line 1 has 2"),
        ("the quick fox\njumps over it\n", "q.csv line 2, column 1: 'jumps' is not a number"),
        ("1,2\n3,a\x1b[31mb\n", "q.csv line 2, column 2: 'a␛[31mb' is not a number"),
        ("x,y\n", "q.csv holds no numbers: its one line reads 'x,y'"),
        (" \n\n", "q.csv holds no numbers"),
        ("1,nan\n2,inf\n", "q.csv: 1 NaN and 1 Inf among 4 numbers, the first at [0, 1]"),
        (b"1,2\n3,\xff\n", "q.csv is not text: byte 6 is not UTF-8"),
    ],
)
def test_tables_that_are_none(content, message):
    assert refused(text(content)).message == message


def test_an_index_column_is_not_taken_for_numbers():
    assert "index=False" in refused(text(",x,y\n0,0.1,0.2\n1,0.3,0.4\n")).hint


# JSON


def test_json_numbers_are_float64():
    read = read_array(text("[[1, 2.5], [-3e2, 9007199254740993]]", "q.json"), name="q")
    np.testing.assert_array_equal(read, [[1, 2.5], [-300, 2.0**53]])
    read = read_array(text('{"q": [[1, 2]], "k": [[3, 4]]}', "q.json"), name="k")
    np.testing.assert_array_equal(read, [[3, 4]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[1, 2], [3]]", "q.json: $[1] has 1 value, $[0] has 2"),
        ("[[[1, 2], [3, 4]], [[5, 6], [7]]]", "q.json: $[1][1] has 1 value, $[0][0] has 2"),
        ("[[1, 2], 3]", "q.json: $[1] is a number, not a list of 2"),
        ("[[1, 2], [3, null]]", "q.json: $[1][1] is null, not a number"),
        ('[[1, 2], ["3", 4]]', "q.json: $[1][0] is the string '3', not a number"),
        ("[[1, true]]", "q.json: $[0][1] is true, not a number"),
        ("[[1, [2]]]", "q.json: $[0][1] is a list, not a number"),
        ("[[1, {}]]", "q.json: $[0][1] is an object, not a number"),
        ("[[1, NaN]]", "q.json: 1 NaN among 2 numbers, the first at $[0][1]"),
        ("[[0, 0], [1, 1e999]]", "q.json: 1 Inf among 4 numbers, the first at $[1][1]"),
        ("[[1, " + "9" * 5000 + "]]", "q.json: 1 Inf among 2 numbers, the first at $[0][1]"),
        ('{"q": [[1, null]]}', "q.json: $.q[0][1] is null, not a number"),
        ('{"q": [[1]], "q": [[2]]}', "q.json has the key 'q' twice"),
        ('{"q": 1}', "q.json holds no arrays"),
        ("3", "q.json: q has shape (); expected at least 2 axes [n, d]"),
        ('"text"', "q.json: $ is the string 'text', not a number"),
        ("[1, 2]", "q.json: q has shape (2,); expected at least 2 axes [n, d]"),
        ("[]", "q.json: q has shape (0,); expected at least 2 axes [n, d]"),
        ("[[], []]", "q.json: q has shape (2, 0): no columns"),
        ("[[1, 2], [3", "q.json is not JSON: Expecting ',' delimiter (line 1, column 12)"),
        ("[[0.1 0.2]]", "q.json is not JSON: Expecting ',' delimiter (line 1, column 7)"),
        ("[" * 100_000, "q.json is nested too deeply"),
        ("[" * 500 + "]" * 500, "q.json: $" + "[0]" * 8 + " is a list, not a number"),
    ],
)
def test_json_that_is_no_matrix(content, message):
    assert refused(text(content, "q.json")).message == message


# .npy and .npz that are damaged or worse


def test_truncated_npy_says_what_is_there():
    whole = npy_bytes(np.zeros((4, 8)))  # 4 * 8 numbers of 8 bytes: 256
    text(whole[: len(whole) - 136], "q.npy")
    message = "q.npy is truncated or still being written: the header promises 256 bytes, 120 are there"
    assert refused("q.npy").message == message


def test_truncated_anywhere():
    for suffix in (".npy", ".npz", ".safetensors"):
        SAVERS[suffix](f"q{suffix}", Q)
        whole = Path(f"q{suffix}").read_bytes()
        for size in range(1, len(whole)):
            error = refused(text(whole[:size], f"cut{suffix}"))
            assert "truncated" in error.message + error.hint or size < 12


def test_a_header_that_lies_is_refused_before_memory_is_taken():
    text(npy_header("(2000000, 2000000)", body=bytes(64)), "q.npy")
    assert "promises 16,000,000,000,000 bytes, 64 are there" in refused("q.npy").message
    for shape in ("(-1, 4)", f"({10**30}, 4)", f"({10**4000}, {10**4000})"):
        assert refused(text(npy_header(shape), "q.npy")).message == "q.npy: the header gives an impossible shape"
    for shape in ("'ab'", "(1.5, 2)", "(" * 200, "(2, 2)}}}", "-" * 5000 + "1"):
        assert refused(text(npy_header(shape), "q.npy")).message == "q.npy has a damaged .npy header"


def test_python_objects_are_never_loaded():
    class Trap:
        def __reduce__(self):
            return (os.mkdir, ("trapped",))

    objects = np.array([[Trap()]], dtype=object)
    np.save("q.npy", objects, allow_pickle=True)
    np.savez("q.npz", q=objects)
    for protocol in (2, 3, 4, 5):
        text(pickle.dumps(Trap(), protocol), f"q{protocol}.npy")
    with zipfile.ZipFile("model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    for spec in ("q.npy", "q.npz", "q2.npy", "q3.npy", "q4.npy", "q5.npy", "model.pt"):
        error = refused(spec)
        assert error.message == f"{spec} contains Python objects (pickle); re-save with a numeric dtype"
    assert not Path("trapped").exists()


def test_a_zip_larger_than_memory_is_refused(monkeypatch):
    with zipfile.ZipFile("q.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", npy_bytes(np.zeros((1024, 1024))))
    assert Path("q.npz").stat().st_size < 20_000
    monkeypatch.setattr(checks, "free_memory", lambda: 2**20)
    error = refused("q.npz", kind=LimitError)
    assert error.message == "q.npz needs 8 MiB of memory, 1 MiB are free"
    assert error.code == ExitCode.LIMIT


def test_only_the_chosen_array_must_fit(monkeypatch):
    np.savez("q.npz", q=Q, other=np.zeros((1024, 1024)))
    monkeypatch.setattr(checks, "free_memory", lambda: 2**20)
    np.testing.assert_array_equal(read_array("q.npz", name="q"), Q)


def test_a_zip_that_lies_about_its_size():
    with zipfile.ZipFile("q.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", npy_bytes(np.zeros((64, 64))))
    whole = Path("q.npz").read_bytes()
    size = struct.pack("<L", len(npy_bytes(np.zeros((64, 64)))))
    assert whole.count(size) == 2
    refused(text(whole.replace(size, struct.pack("<L", 200)), "q.npz"))


def test_a_zip_with_a_password_or_without_arrays():
    np.savez("q.npz", q=Q)
    whole = bytearray(Path("q.npz").read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(mark) + at] |= 1
    assert refused(text(bytes(whole), "locked.npz")).message == "locked.npz uses a compression that can't be read here"
    with zipfile.ZipFile("book.xlsx", "w") as archive:
        archive.writestr("xl/book.xml", "<x/>")
    assert refused("book.xlsx").message == "book.xlsx is a zip file with no .npy array in it"


# .safetensors


def test_bfloat16_is_the_upper_half_of_float32():
    torch = pytest.importorskip("torch")
    numbers = torch.tensor([[1.0, -2.5, 3e38], [1e-40, 0.1, -0.0]]).to(torch.bfloat16)
    name = tensors({"q": ("BF16", [2, 3], 12)}, numbers.view(torch.int16).numpy().tobytes())
    read = read_array(name, name="q")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, numbers.float().numpy())


@pytest.mark.parametrize(("dtype", "name"), [("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")])
def test_all_256_numbers_of_float8(dtype, name):
    torch = pytest.importorskip("torch")
    file = tensors({"q": (dtype, [16, 16], 256)}, bytes(range(256)))
    expected = torch.arange(256).to(torch.uint8).view(getattr(torch, name)).float().reshape(16, 16).numpy()
    np.testing.assert_array_equal(read_array(file, name="q", allow_nonfinite=True), expected)


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ({"q": ("F32", [2, 2], 16)}, bytes(8), "incomplete metadata"),
        ({"q": ("F32", [2, 2], 12)}, bytes(12), "q.safetensors can't be read"),
        ({"q": ("F8_E8M0", [2, 2], 4)}, bytes(4), "q.safetensors has dtype F8_E8M0"),
        ({"q": ("C64", [2, 2], 32)}, bytes(32), "q.safetensors has dtype complex64"),
        ({"q": ("F32", [4], 16)}, bytes(16), "q.safetensors: q has shape (4,)"),
        ({"a\nb": ("F32", [2, 2], 16), "c": ("F32", [2, 2], 16)}, bytes(32), "2 arrays and it isn't clear which is q"),
        ({}, b"", "q.safetensors holds no arrays"),
        (b"{", b"", "invalid JSON in header"),
        (b'{"q":1}', b"", "invalid JSON in header"),
    ],
)
def test_safetensors_that_are_wrong(header, body, message):
    name = tensors(header, body)
    assert message in refused(name).message
    assert message in refused("-", stdin=io.BytesIO(Path(name).read_bytes())).message.replace("stdin", name)


def test_safetensors_with_a_header_beyond_the_file():
    text(struct.pack("<Q", 2**40) + b"{}", "q.safetensors")
    assert f"the header takes {2**40 + 8} bytes, 10 are there" in refused("q.safetensors").message


def test_safetensors_with_a_name_twice():
    entry = b'{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}'
    assert "has the key 'q' twice" in refused(tensors(b'{"q":' + entry + b',"q":' + entry + b"}", bytes(4))).message


# Files that aren't there, or aren't matrices


def test_a_missing_file_names_its_neighbour():
    np.save("queries.npy", Q)
    error = refused("querys.npy")
    assert (error.message, error.hint) == ("no file querys.npy", "did you mean queries.npy?")
    assert refused("nowhere/q.npy").hint == "there is no folder nowhere"
    assert refused("zzz").hint == "check the name and the folder"
    assert refused("missing.npz:q").message == "no file missing.npz"
    assert refused("queries.npy/q.npy").message == "no file queries.npy/q.npy"


@pytest.mark.parametrize("spec", ["", "a\0b", "x" * 300, "x" * 300 + ":q", "a\nb", "\udcff", "q.npy:", ":", "::q", "~"])
def test_names_that_lead_nowhere(spec):
    refused(spec)


def test_folders_devices_and_empty_files(here):
    (here / "folder").mkdir()
    assert refused("folder").message == "folder is a folder, not a file"
    assert refused("/dev/null").message == "/dev/null is a device, not a file"
    assert refused(text("", "q.npy")).message == "q.npy is empty (0 bytes)"
    Path("loop").symlink_to("loop")
    assert "loop can't be read: " in refused("loop").message


def test_a_file_that_may_not_be_read(monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")

    np.save("q.npy", Q)
    monkeypatch.setattr(raw, "_file_bytes", denied)
    assert refused("q.npy").message == "q.npy can't be read: Permission denied"


@pytest.mark.parametrize(
    ("start", "noun"),
    [
        (b"\x89PNG\r\n\x1a\n", "is a PNG image"),
        (b"PK\x05\x06" + bytes(18), "is a zip file with no .npy array in it"),
        (b"\x1f\x8b\x08\0\0", "is a gzip file"),
        (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"),
        (b"\x7fELF\x02", "is an ELF program"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the file itself"),
        (b"\0\1\2\3", "has an unknown file type"),
    ],
)
def test_other_kinds_are_named(start, noun):
    assert refused(text(start, "q.bin")).message == f"q.bin {noun}"


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("1,2\n3,4\n", "q.npy", "q.npy is not a .npy file: it holds text"),
        ("[[1, 2]]", "q.npz", "q.npz is not a .npz file: it holds JSON"),
        (npy_bytes(Q), "q.csv", "q.csv is not a .csv file: it holds .npy"),
        (npy_bytes(Q), "q.safetensors", "q.safetensors is not a .safetensors file: it holds .npy"),
        (bytes(20), "q.npy", "q.npy is not a .npy file: it begins with the bytes 00 00 00 00 00 00"),
    ],
)
def test_a_suffix_that_is_wrong(content, name, message):
    assert refused(text(content, name)).message == message


def test_stdin_that_gives_nothing(monkeypatch):
    class Terminal(io.BytesIO):
        def isatty(self):
            return True

    closed = io.BytesIO()
    closed.close()
    assert refused("-", stdin=Terminal()).message == "- reads stdin, and stdin is a terminal"
    assert refused("-", stdin=closed).message == "- reads stdin, and stdin is closed"
    assert refused("-", stdin=io.BytesIO()).message == "stdin is empty (0 bytes)"
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-").message == "- reads stdin, and stdin is closed"


# Whatever comes, one line


SUFFIXES = ["", ".npy", ".npz", ".csv", ".txt", ".json", ".safetensors"]
SEEDS = [
    npy_bytes(Q),
    npy_header("(2, 2)", body=bytes(16)),
    b"1,2,3\n4,5,6\n",
    "1;2,5\n".encode("utf-16"),
    b'{"q": [[1, 2], [3, 4]], "k": [[1]]}',
    safetensors.numpy.save({"q": Q, "k": Q}),
    b"\x80\x04N.",
]


def seed_npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, q=Q, k=Q)
    return file.getvalue()


SEEDS.append(seed_npz())


@st.composite
def spoiled(draw) -> bytes:
    """A good file with a few bytes put in the place of others, anywhere."""
    content = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        at, size = draw(st.integers(0, len(content))), draw(st.integers(0, 6))
        content = content[:at] + draw(st.binary(max_size=6)) + content[at + size :]
    return content


@given(
    content=st.binary(max_size=200) | spoiled() | st.text(max_size=60).map(str.encode), suffix=st.sampled_from(SUFFIXES)
)
@settings(
    max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_no_bytes_end_in_a_traceback(content, suffix):
    Path(f"q{suffix}").write_bytes(content)
    for spec, stdin in ((f"q{suffix}", None), ("-", io.BytesIO(content))):
        try:
            read = read_array(spec, name="q", stdin=stdin)
        except AttnError as error:
            one_line(error)
        else:
            assert read.ndim >= 2
            assert read.size > 0
            assert read.dtype.kind == "f"
            assert np.isfinite(read).all()


def test_torch_stays_away():
    code = "import sys, attn_cli.sources.files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
