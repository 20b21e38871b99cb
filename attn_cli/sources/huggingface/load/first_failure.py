"""Which of the processes that share a model failed first: it tells why, the others end without a word."""

import os
from datetime import timedelta

from torch import distributed

from attn_cli.ranks import ranks

_PATIENCE = timedelta(seconds=10)
_COUNT = "attn/failed"


def is_first_failure() -> bool:
    """True for the first of torchrun's processes to ask, so the first that failed, and for one that runs alone.

    No process waits for another, which may be gone: they count themselves in the store of torchrun, which lives until
    all have ended. True as well where the store can't be reached, for a line too many is better than none.
    """
    if ranks() == 1:
        return True
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    try:
        store = distributed.TCPStore(host, int(port), is_master=False, timeout=_PATIENCE)  # type: ignore[attr-defined]
        return int(store.add(f"{_COUNT}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", 1)) == 1
    except (RuntimeError, ValueError):  # no store, or no number of a port
        return True
