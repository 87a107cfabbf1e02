"""Tests of @KERNEL@: `pytest` in this folder, on the platform of KBC_PLATFORM (a2a3sim unless set).

A case is a run of main.py in a process of its own, so that no case sees what another left in the runtime.
"""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PLATFORM = os.environ.get("KBC_PLATFORM", "a2a3sim")
# ranks, count (None: sizes are fixed), data
CASES = (
@CASES@)


@pytest.mark.parametrize("ranks, count, data", CASES)
def test_every_element_on_every_rank(ranks, count, data):
    command = [sys.executable, "main.py", "-p", PLATFORM, "-d", ",".join(map(str, range(ranks))), "--data", data]
    command += [] if count is None else ["--count", str(count)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flags, why", @REFUSED@)
def test_what_is_refused(flags, why):
    done = subprocess.run([sys.executable, "main.py", *flags], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 1 and why in done.stderr, done.stdout + done.stderr
