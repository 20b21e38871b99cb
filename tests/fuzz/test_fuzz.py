"""A few cases of every kind, on every run; `python -m tests.fuzz` has thousands."""

import subprocess
import sys

from tests.program import environment

_CASES = 8


def test_spoilt_files_of_every_kind_are_read_or_refused() -> None:
    line = [sys.executable, "-m", "tests.fuzz", "settings", "recording", "scan-show", "messages", "scan", "dump"]
    done = subprocess.run(
        [*line, "--cases", str(_CASES)], env=environment(), capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert done.stdout.decode().count("0 findings") == 6


def test_a_fault_is_found() -> None:
    """A command that ends in a bug, as it would on a file that isn't checked."""
    script = (
        "from tests.fuzz import forked, cases\n"
        "def main(): raise SystemExit(70)\n"
        "forked.main = main\n"
        "codes, found = cases.run_cases('settings', range(3))\n"
        "assert codes == {70: 3} and [each.count for each in found.values()] == [3], (codes, found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
