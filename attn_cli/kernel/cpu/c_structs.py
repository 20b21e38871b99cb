"""The structs that the compiled code is called with, field by field as in the C files, which say what each means."""

import ctypes

_INT, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class AttentionStruct(ctypes.Structure):
    """The C struct `Attention` of fused.c: the arguments of one pass over some heads of one layer's attention."""

    _fields_ = [
        *((name, _INT) for name in ("h", "g", "n", "m", "d", "e")),
        *((name, _POINTER) for name in ("q", "k", "v")),
        *((name, _INT) for name in ("q_head", "q_row", "k_head", "k_row", "v_head", "v_row")),
        ("first", _POINTER),
        ("last", _POINTER),
        ("places", _POINTER),
        ("noted", _INT),
        ("scale", _FLOAT),
        ("softcap", _FLOAT),
        ("bias", _POINTER),
        ("bias_head", _INT),
        ("bias_row", _INT),
        ("sink", _POINTER),
        ("offset", _INT),
        ("output", _POINTER),
        ("output_head", _INT),
        ("output_row", _INT),
        *((name, _POINTER) for name in ("maximum", "logsumexp", "weight_sum", "entropy", "distance")),
        *((name, _INT) for name in ("key_sets", "set_columns")),
        *((name, _POINTER) for name in ("set_keys", "set_ends", "key_sums")),
        ("vectors", _INT),
        *((name, _POINTER) for name in ("vector_values", "vector_sums")),
        ("received", _POINTER),
        ("count", _INT),
        ("top_weights", _POINTER),
        ("top_scores", _POINTER),
        ("top_keys", _POINTER),
        *((name, _INT) for name in ("pool_rows", "pool_keys")),
        ("pooled", _POINTER),
        ("panels", _POINTER),
        *((name, _INT) for name in ("task_rows", "next_piece", "packed_pieces", "next_task", "broken_values")),
        ("locks", _POINTER),
    ]
