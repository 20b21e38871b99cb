"""A user's matrix, read from a file or from stdin: read_array; and the precision it was stored in."""

from typing import BinaryIO

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, as_floats, require_finite
from attn_cli.sources.files.json_lists import parse_json, read_json
from attn_cli.sources.files.kinds import FileKind, kind_of
from attn_cli.sources.files.npy import npz_names, read_npy, read_npz
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.raw import Raw, is_file, open_raw
from attn_cli.sources.files.tensors import read_safetensors, safetensors_names, stored_precision
from attn_cli.sources.files.text import decode_text, read_text
from attn_cli.sources.files.typed import is_typed, typed_matrix


def read_array(spec: str, *, name: str, stdin: BinaryIO | None = None, allow_nonfinite: bool = False) -> Matrix:
    """The matrix that `spec` names: two axes or more, real numbers, read-only.

    `spec` is a path, `path.npz:member` (also for .safetensors and .json objects), `-` for the bytes on `stdin`, or the
    numbers themselves: `1 0; 0 1`.
    `name` is the role ("q", "mask" ...): it picks the array where a file holds several, and messages use it.
    float16, 32 and 64 keep their dtype, bfloat16 and float8 become float32, the rest float64; a mask may stay bool.
    -inf may stand in a mask, other NaN and Inf only with `allow_nonfinite`. A large .npy or .safetensors is mapped.
    Raises InputError for all that is wrong with the input, LimitError for what exceeds the memory.

    >>> import io
    >>> read_array("-", name="q", stdin=io.BytesIO(b"1,2\\n3,4"))
    array([[1., 2.],
           [3., 4.]])
    """
    raw = None if is_typed(spec) else open_raw(spec, stdin)
    with parse_errors(name if raw is None else raw.label):
        array, label, root = (typed_matrix(spec, name), name, None) if raw is None else _read(raw, name)
        array = as_floats(array, name, label)
        if not allow_nonfinite:
            require_finite(array, name, label, root)
    # read-only whether mapped or not, so that writing fails for small files as for large ones
    array.flags.writeable = False
    return array


def array_names(file: str) -> list[str]:
    """The names of the arrays in a file, by which it gives several; [] for a file of one array."""
    raw = open_raw(file, None)
    with parse_errors(raw.label):
        match kind_of(raw):
            case FileKind.NPZ:
                return npz_names(raw)
            case FileKind.SAFETENSORS:
                return safetensors_names(raw)
            case FileKind.JSON:
                value = parse_json(decode_text(raw.data, raw.label), raw.label)
                return (
                    [name for name, item in value.items() if isinstance(item, list)] if isinstance(value, dict) else []
                )
            case _:
                return []


def widened_from(spec: str, *, name: str) -> str | None:
    """The precision in which a file stores an array that `read_array` widens, such as "bfloat16"; None for others."""
    if not is_file(spec):  # a pipe is read once
        return None
    raw = open_raw(spec, None)
    return stored_precision(raw, name) if kind_of(raw) is FileKind.SAFETENSORS else None


def _read(raw: Raw, name: str) -> tuple[Matrix, str, str | None]:
    match kind_of(raw):
        case FileKind.NPZ:
            return *read_npz(raw, name), None
        case FileKind.SAFETENSORS:
            return *read_safetensors(raw, name), None
        case FileKind.JSON:
            array, root = read_json(raw, name)
            return array, raw.label, root
        case kind:
            if raw.member is not None:
                raise InputError(f"{raw.label} holds one array and no names", "leave out the colon and what follows")
            read = read_npy(raw.data, name, raw.label) if kind is FileKind.NPY else read_text(raw.data, raw.label)
            return read, raw.label, None
