"""Files and folders that belong to somebody else, as a user sees them who may read nothing of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attn_cli.errors import ExitCode
from tests.program import SHORT, Run, environment, refused

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


@root_alone
@pytest.mark.parametrize("mode", [0o700, 0o711, 0o744], ids=oct)
def test_a_model_folder_that_may_not_be_listed_is_the_folder(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(mode)
    done = as_nobody("layers", "-m", folder, reaching=tmp_path)
    refused(done, ExitCode.LOAD, f"{folder} can't be read: Permission denied\n      check")
