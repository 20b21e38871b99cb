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
from attn_cli.sources import memory
from attn_cli.sources.files import raw
from attn_cli.sources.files.array_file import read_array

Q = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])


pytestmark = pytest.mark.usefixtures("here")


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


SAVERS = {
    ".npy": np.save,
    ".npz": np.savez,
    ".csv": lambda path, array: np.savetxt(path, array, delimiter=","),
    ".tsv": lambda path, array: np.savetxt(path, array, delimiter="\t"),
    ".txt": lambda path, array: np.savetxt(path, array, header="a comment"),
    ".json": lambda path, array: Path(path).write_text(json.dumps(array.tolist())),
    ".safetensors": lambda path, array: safetensors.numpy.save_file({"any": array}, path),
}


@given(
    array=hnp.arrays(
        st.sampled_from(["<f2", "<f4", "<f8", ">f4", ">f8", "|i1", "|u1", "<i8", ">i4", "<u8", "|b1", "longdouble"]),
        hnp.array_shapes(min_dims=2, max_dims=4, max_side=4),
        elements=st.integers(0, 1) | st.just(1),
    ),
    fortran=st.booleans(),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_numbers_of_any_type_order_and_version_of_npy(array, fortran, version):
    with Path("q.npy").open("wb") as file:
        np.lib.format.write_array(file, np.asfortranarray(array) if fortran else array, version=version)
    read = read_array("q.npy", name="q")
    np.testing.assert_array_equal(read, array.astype(float))
    kept = array.dtype.kind == "f" and array.dtype.itemsize <= 8
    assert read.dtype == (array.dtype.newbyteorder("=") if kept else np.float64)
    assert not read.flags.writeable


@given(
    array=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-9, 9)),
    suffix=st.sampled_from([*SAVERS]),
)
@settings(
    max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_what_is_saved_is_read_bit_for_bit_by_its_suffix_its_first_bytes_and_from_stdin(array, suffix):
    array = array if suffix not in (".csv", ".tsv", ".txt") else array.reshape(len(array), -1)
    SAVERS[suffix](f"q{suffix}", array)
    np.testing.assert_array_equal(read_array(f"q{suffix}", name="q"), array)
    Path(f"q{suffix}").rename("q")
    np.testing.assert_array_equal(read_array("q", name="q"), array)
    np.testing.assert_array_equal(read_array("-", name="q", stdin=io.BytesIO(Path("q").read_bytes())), array)


def test_bool_stays_for_a_mask():
    may = np.array([[True, False], [True, True]])
    np.save("mask.npy", may)
    Path("mask.json").write_text("[[true, false], [true, true]]")
    for spec in ("mask.npy", "mask.json"):
        read = read_array(spec, name="mask")
        assert read.dtype == bool
        np.testing.assert_array_equal(read, may)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base if isinstance(array, np.ndarray) else None
    return array is not None


def test_a_large_file_is_mapped_a_small_one_read(monkeypatch):
    np.save("q.npy", Q)
    SAVERS[".safetensors"]("q.safetensors", Q)
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


def test_the_role_picks_the_array():
    np.savez("heads.npz", Query=Q, K=Q + 1, value=Q + 2, W_Q=Q + 3, mask=Q + 4)
    safetensors.numpy.save_file({"Query": Q, "K": Q + 1, "value": Q + 2, "W_Q": Q + 3, "mask": Q + 4}, "h.safetensors")
    for file in ("heads.npz", "h.safetensors"):
        for added, role in enumerate(["q", "k", "v", "wq", "mask"]):
            np.testing.assert_array_equal(read_array(file, name=role), Q + added)


def test_a_name_after_a_colon():
    np.savez("heads.npz", a=Q, b=Q + 1)
    safetensors.numpy.save_file({"layer.0": Q, "layer:1": Q + 1}, "h.safetensors")
    Path("h.json").write_text('{"a": [[0]], "b": [[1, 2]], "note": "text"}')
    for spec in ("heads.npz:b", "h.safetensors:layer:1"):
        np.testing.assert_array_equal(read_array(spec, name="q"), Q + 1)
    np.testing.assert_array_equal(read_array("h.json:b", name="q"), [[1, 2]])
    stdin = io.BytesIO(Path("heads.npz").read_bytes())
    np.testing.assert_array_equal(read_array("-:b", name="q", stdin=stdin), Q + 1)


def test_which_array_is_meant_must_be_clear():
    np.savez("heads.npz", alpha=Q, beta=Q)
    error = refused("heads.npz")
    assert error.message == "heads.npz holds 2 arrays and it isn't clear which is q: alpha, beta"
    assert error.hint == "choose one: heads.npz:NAME"
    error = refused("heads.npz:bata")
    assert (error.message, error.hint) == ("heads.npz has no array called 'bata'", "it holds alpha, beta")


def test_a_member_that_points_elsewhere_is_only_a_name(here):
    with zipfile.ZipFile("q.npz", "w") as archive:
        archive.writestr("../../evil\n\x1b.npy", npy_bytes(Q))
    before = set(here.parent.iterdir())
    np.testing.assert_array_equal(read_array("q.npz", name="q"), Q)
    assert set(here.parent.iterdir()) == before
    refused("q.npz:\x1b[31m")


# Shapes, dtypes, finite numbers


def test_a_mask_may_hold_minus_infinity():
    mask = np.array([[0, -np.inf], [0, 0]])
    np.save("mask.npy", mask)
    np.testing.assert_array_equal(read_array("mask.npy", name="mask"), mask)
    refused("mask.npy", name="q")
    np.save("mask.npy", -mask)
    assert refused("mask.npy", name="mask").message == "mask.npy: 1 Inf among 4 numbers, the first at [0, 1]"


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


# .npy and .npz that are damaged or worse


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
        assert error.message == f"{spec} contains Python objects (pickle): save it with a numeric dtype"
    assert not Path("trapped").exists()


def test_a_zip_larger_than_memory_is_refused(monkeypatch):
    with zipfile.ZipFile("q.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", npy_bytes(np.zeros((1024, 1024))))
    assert Path("q.npz").stat().st_size < 20_000
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    error = refused("q.npz", kind=LimitError)
    assert error.message == "the numbers of q.npz take 8.4 MB, and 1.0 MB are free"
    assert error.code == ExitCode.LIMIT


def test_a_zip_that_lies_about_its_size():
    with zipfile.ZipFile("q.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", npy_bytes(np.zeros((64, 64))))
    whole = Path("q.npz").read_bytes()
    size = struct.pack("<L", len(npy_bytes(np.zeros((64, 64)))))
    assert whole.count(size) == 2
    refused(text(whole.replace(size, struct.pack("<L", 200)), "q.npz"))


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


# Files that aren't there, or aren't matrices: the exit code and what was meant, one of each kind


def saved(array, name="q.npy"):
    np.save(name, array)
    return name


def locked_zip():
    np.savez("whole.npz", q=Q)
    whole = bytearray(Path("whole.npz").read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(mark) + at] |= 1
    return text(bytes(whole), "locked.npz")


ENTRY = b'{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}'


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (lambda: saved(np.ones(4)), "(4,)"),
        (lambda: saved(np.ones((0, 4))), "axis 0 is empty"),
        (lambda: saved(np.ones((2, 2), np.complex64)), "complex64"),
        (lambda: saved(np.array([["a", "b"]])), "<U1"),
        (lambda: saved(np.ones((2, 2)).view("V2")), "|V2"),
        (lambda: text("1,2,3\n\n4,5\n"), "line 3 has 2 cells"),
        (lambda: text("1,2\n3,four\n"), "line 2, column 2: 'four'"),
        (lambda: text("1,2\n3,1_0\n"), "'1_0'"),
        (lambda: text("1;2,5\n3;4.5\n"), "'2,5'"),
        (lambda: text("1,2\n3,a\x1b[31mb\n"), "'a␛[31mb'"),
        (lambda: text("x,y\n"), "holds no numbers"),
        (lambda: text("1,nan\n2,inf\n"), "1 NaN and 1 Inf among 4 numbers, the first at [0, 1]"),
        (lambda: text(b"1,2\n3,\xff\n"), "byte 6"),
        (lambda: text("[[[1, 2], [3, 4]], [[5, 6], [7]]]", "q.json"), "inhomogeneous"),
        (lambda: text("[[1, 2], [3, null]]", "q.json"), "more than numbers"),
        (lambda: text("[[0, 0], [1, 1e999]]", "q.json"), "the first at [1, 1]"),
        (lambda: text('{"q": [[1]], "q": [[2]]}', "q.json"), "'q' twice"),
        (lambda: text("[[1, 2], [3", "q.json"), "line 1 column 12"),
        (lambda: text("[" * 100_000, "q.json"), "nested too deeply"),
        (lambda: tensors({"q": ("F8_E8M0", [2, 2], 4)}, bytes(4)), "F8_E8M0"),
        (lambda: tensors({"q": ("F32", [2, 2], 16)}, bytes(8)), "incomplete"),
        (lambda: tensors(b'{"q":' + ENTRY + b',"q":' + ENTRY + b"}", bytes(4)), "'q' twice"),
        (lambda: text(struct.pack("<Q", 2**40) + b"{}", "q.safetensors"), "10 are there"),
        (locked_zip, "encrypted"),
        (lambda: text("", "q.npy"), "empty"),
        (lambda: text(b"\x89PNG\r\n\x1a\n", "q.bin"), "unknown file type"),
        (lambda: text("1,2\n3,4\n", "q.npy"), "damaged .npy header"),
        (lambda: "/dev/null", "device"),
        (lambda: "nowhere/q.npy", "nowhere"),
    ],
)
def test_what_is_no_matrix_is_refused_with_its_place(made, word):
    error = refused(made())
    assert word in error.message + error.hint


@pytest.mark.parametrize("spec", ["", "a\0b", "x" * 300, "x" * 300 + ":q", "a\nb", "\udcff", "q.npy:", ":", "::q", "~"])
def test_names_that_lead_nowhere(spec):
    refused(spec)


def test_stdin_that_gives_nothing():
    closed = io.BytesIO()
    closed.close()
    assert "closed" in refused("-", stdin=closed).message
    assert "empty" in refused("-", stdin=io.BytesIO()).message
