"""Running `attn` as a user who may read nothing of ours, where the tests are root's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import SHORT, Run, environment

root_alone = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root becomes another user")
# The command runs once as root, who loads what this user may not read of Python, and then again as nobody.
_AS_NOBODY = """
import os, sys
from attn_cli.cli import main
from tests.program import attn
attn(*sys.argv[1:])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
main()
"""


def as_nobody(*arguments: object, reaching: Path, env: dict[str, str] | None = None) -> Run:
    """Run `attn` in a process of the user nobody, for whom the folder `reaching` is on the way to what it names."""
    for folder in (reaching, *reaching.parents[:2]):
        folder.chmod(0o755)
    line = [sys.executable, "-c", _AS_NOBODY, *map(str, arguments)]
    done = subprocess.run(line, env=environment(**(env or {})), stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=2 * SHORT, check=False)  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr.decode())
