"""Converted with `--target agnostic`, one program runs on a CPU, an emulated NPU and the stand-in for CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from agnostic_programs import PROGRAMS

MACHINES = ("cpu", "npu", "cuda")
FROM_2_9 = ("memory", "out of memory", "streams")


@cache
def failures(machine: str) -> dict[str, str]:
    """Run every program in a process that has this machine."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "agnostic_programs.py"), machine],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_converted_program_runs_on(machine: str, name: str) -> None:
    if machine != "cpu" and name in FROM_2_9 and not hasattr(torch.accelerator, "empty_cache"):
        pytest.skip("torch.accelerator has no memory functions before torch 2.9")
    assert failures(machine).get(name) is None, failures(machine)[name]
