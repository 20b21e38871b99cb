"""Row statistics in one pass of compiled code, on a processor: without bands, several times as fast.

`walk` says which calls it suits and what it notes of them, `compiled_call` lays a call out for `fused.c`, whose
arithmetic stands in `fused_tile.h`; `gaps` are the holes of its mask. `c_library` finds that code, `c_structs` are its
arguments, `c_threads` run it.
"""
