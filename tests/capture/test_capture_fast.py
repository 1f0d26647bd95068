"""What C++ notes, in a process of its own: with an emulated device, which other tests bring up, Python notes all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.native import compiler


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="no C++ compiler is installed")
def test_the_file_of_isolated_tests_passes() -> None:
    file = Path(__file__).parent / "isolated" / "fast.py"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(file)]
    # Commands that tests run in this process leave the plan of their device in the environment.
    own = {name: value for name, value in os.environ.items() if not name.startswith("JUMAR_")}
    environment = {**own, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
