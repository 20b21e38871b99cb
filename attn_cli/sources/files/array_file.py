"""A user's matrix, read from a file or from stdin: read_array; and the precision it was stored in."""

import difflib
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, as_floats, require_dtype, require_finite, require_shape
from attn_cli.sources.files.json_document import list_array, parse_json
from attn_cli.sources.files.npy import npy_array, npz_arrays
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.raw import Raw, is_file, kind_of, open_raw
from attn_cli.sources.files.tensors import WIDENED, safetensors_arrays, tensor_entries
from attn_cli.sources.files.text import decode_text, is_typed, text_array, typed_array
from attn_cli.text import counted, excerpt, listed

_ALIASES = {"q": ("query", "queries"), "k": ("key", "keys"), "v": ("value", "values"), "mask": ("attention_mask",)}


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
        array, label = (typed_array(spec, name), name) if raw is None else _read(raw, name)
        require_dtype(array.dtype, label)
        require_shape(array.shape, name, label)
        array = as_floats(array, name, label)
        if not allow_nonfinite:
            require_finite(array, name, label)
    # read-only whether mapped or not, so that writing fails for small files as for large ones
    array.flags.writeable = False
    return array


def array_names(file: str) -> list[str]:
    """The names of the arrays in a file, by which it gives several; [] for a file of one array, and path:member."""
    raw = open_raw(file)
    with parse_errors(raw.label):
        return [] if raw.member is not None else [name for name in _arrays(raw) if name]


def widened_from(spec: str, *, name: str) -> str | None:
    """The precision in which a file stores an array that `read_array` widens, such as "bfloat16"; None for others."""
    if not is_file(spec):  # a pipe is read once
        return None
    raw = open_raw(spec)
    if kind_of(raw) != ".safetensors":
        return None
    entries, _ = tensor_entries(raw)
    dtype = entries[_choose(list(entries), raw, name)]["dtype"]
    return WIDENED[dtype][0] if dtype in WIDENED else None


def _read(raw: Raw, role: str) -> tuple[Matrix, str]:
    arrays = _arrays(raw)
    name = _choose(list(arrays), raw, role)
    label = raw.label if len(arrays) == 1 else f"{raw.label}:{excerpt(name, 60)}"
    return arrays[name](label), label


def _arrays(raw: Raw) -> dict[str, Callable[[str], Matrix]]:
    """Functions that read the arrays of a file, by name; "" is the name of an array without one."""
    match kind_of(raw):
        case ".npz":
            return npz_arrays(raw)
        case ".safetensors":
            return safetensors_arrays(raw)
        case "JSON":
            value = parse_json(decode_text(raw.data, raw.label), raw.label)
            if not isinstance(value, dict):
                return {"": partial(list_array, value)}
            lists = {name: item for name, item in value.items() if isinstance(item, list)}
            return {name: partial(list_array, item) for name, item in lists.items()}
        case ".npy":
            return {"": partial(npy_array, raw.data)}
        case _:
            return {"": partial(text_array, raw.data)}


def _choose(names: Sequence[str], raw: Raw, role: str) -> str:
    """The array to read from a file: its member if one is named, else the only one, else the one that is `role`."""
    if not names:
        raise InputError(f"{raw.label} holds no arrays", "save at least one array in it")
    member = excerpt(raw.member or "", 60)
    if raw.member is not None and list(names) == [""]:
        raise InputError(f"{raw.label} holds one array and no names", f"leave out :{member}")
    if raw.member is not None and raw.member not in names:
        close = difflib.get_close_matches(raw.member, names, n=1)
        guess = f"did you mean {excerpt(close[0], 60)}? " if close else ""
        known = f"{guess}it holds {listed(map(excerpt, names))}"
        raise InputError(f"{raw.label} has no array called {member!r}", known)
    chosen = raw.member if raw.member is not None else names[0] if len(names) == 1 else member_for(names, role)
    if chosen is None:
        held = f"{counted(len(names), 'array')} and it isn't clear which is {role}: {listed(map(excerpt, names))}"
        raise InputError(f"{raw.label} holds {held}", f"choose one: {raw.label}:NAME")
    return chosen


def member_for(names: Sequence[str], role: str) -> str | None:
    """The array whose name says that it is `role`: k is also K, key, keys; None where none or several do.

    >>> member_for(["Query", "K"], "q")
    'Query'
    """
    if role in names:
        return role
    for word in (role, *_ALIASES.get(role, ())):
        fitting = [name for name in names if _folded(name) == _folded(word)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")
