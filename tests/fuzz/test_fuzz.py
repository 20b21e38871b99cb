"""A few cases of every kind, on every run; `python -m tests.fuzz` has thousands."""

import subprocess
import sys

import pytest

from tests.program import environment

_CASES = 8
_KINDS = ("recording", "scan-show", "messages", "scan", "arrays")
_SCRIPT = f"""
import sys
from tests.fuzz import __main__ as fuzz, cases, forked

def ends_in_a_bug():
    raise SystemExit(70)

whole, forked.main = forked.main, ends_in_a_bug
codes, found = cases.run_cases("messages", range(3))
print("planted:", dict(codes), [each.count for each in found.values()], flush=True)
forked.main = whole
sys.argv = ["tests.fuzz", *{_KINDS}, "--cases", "{_CASES}"]
sys.exit(fuzz.main())
"""


@pytest.fixture(scope="module")
def ran() -> "subprocess.CompletedProcess[str]":
    """One process, which imports everything once: a command that ends in a bug, as on a file that isn't checked, and
    then all kinds of files.
    """
    line = [sys.executable, "-c", _SCRIPT]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def test_spoilt_files_of_every_kind_are_read_or_refused(ran: "subprocess.CompletedProcess[str]") -> None:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("0 findings") == len(_KINDS)


def test_a_fault_is_found(ran: "subprocess.CompletedProcess[str]") -> None:
    assert "planted: {70: 3} [3]" in ran.stdout, ran.stdout + ran.stderr
