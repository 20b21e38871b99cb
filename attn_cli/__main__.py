"""The program: the command attn, and python -m attn_cli."""

# Not signal, which imports enum: these are the first lines that can heed Ctrl-C.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # no traceback of the imports below; `watch` takes over from here


def main() -> None:
    """Run the command line; Ctrl-C ends it at any moment, also while its modules are imported."""
    _hold_closed_streams()
    from attn_cli.interrupts import watch

    watch()
    import gc

    gc.set_threshold(100_000)  # imports make many objects, and all of them stay
    from attn_cli.cli import main as command_line

    try:
        command_line()
    except SystemExit as end:
        _end_at_once(end.code)
        raise


def _end_at_once(code: object) -> None:
    """End the process without taking its modules apart, which for torch's takes as long as a small model's answer."""
    import atexit
    import os
    import sys

    if not isinstance(code, int) or sys.gettrace() or sys.getprofile() or sys.flags.interactive or sys.flags.inspect:
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _hold_closed_streams() -> None:
    import os  # here: nothing is imported before Ctrl-C is heeded

    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free: this one


if __name__ == "__main__":
    main()
