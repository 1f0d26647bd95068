"""What a command loads, runs and calls from file to file: counted in a process of its own. No test measures time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SCRIPT = """
import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(2, 4, device="cuda")
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
RUN = """
import sys
from jumar.cli.main import main
main(sys.argv[1:])
sys.stderr.write("\\nloaded " + " ".join(sys.modules))
"""

COUNT = """
import json, os, sys, threading
mark = os.sep + os.path.join("src", "jumar") + os.sep
files, hops = set(), 0
def note(frame, event, argument):
    global hops
    file = frame.f_code.co_filename
    if event != "call" or mark not in file or frame.f_code.co_name == "<module>":
        return
    files.add(file)
    caller = frame.f_back.f_code.co_filename if frame.f_back else ""
    hops += mark in caller and caller != file
threading.setprofile(note)
sys.setprofile(note)
from jumar.cli.main import main
exit_code = main(sys.argv[1:])
sys.setprofile(None)
modules = [name for name in sys.modules if name.partition(".")[0] == "jumar"]
print("\\n" + json.dumps({"exit": exit_code, "files": len(files), "hops": hops, "modules": len(modules)}))
"""
"""Prints what a command took: files that ran, calls from one file to another, modules loaded."""


def loaded(arguments: Sequence[str]) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], check=True, capture_output=True, text=True)
    return set(done.stderr.rpartition("\nloaded ")[2].split())


def of_jumar(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "jumar"}


def test_converting_a_short_script_loads_few_modules(tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "train.py").write_text(SCRIPT, "utf-8")
    modules = loaded(["convert", "-i", str(tmp_path / "script"), "-o", str(tmp_path / "out"), "--no-cache"])
    assert len(of_jumar(modules)) <= 219
    assert not {"torch", "numpy"} & modules


def test_explaining_a_rule_loads_few_modules() -> None:
    modules = loaded(["rule", "JM101"])
    assert len(of_jumar(modules)) <= 30
    assert not {"torch", "numpy", "libcst"} & modules


def test_comparing_one_step_of_two_runs_that_agree_stays_small(tmp_path: Path) -> None:
    stored = Path(__file__).parents[1] / "recording" / "assets" / "version-2"
    for side in ("reference", "target"):
        shutil.copytree(stored, tmp_path / side)
    command = [sys.executable, "-c", COUNT, "compare", str(tmp_path / "reference"), str(tmp_path / "target")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["exit"] == 0
    assert cost["files"] <= 73
    assert cost["hops"] <= 1000
    assert cost["modules"] <= 104


LINEAR = """
import torch


def make():
    return torch.nn.Linear(8, 8).eval(), (torch.randn(2, 8),)
"""


@pytest.mark.parametrize("job", ["1", "2"])
def test_tuning_one_linear_loads_only_what_the_job_needs(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget is over at once: everything is prepared and told, and nothing is measured."""
    (tmp_path / "model.py").write_text(LINEAR, "utf-8")
    (tmp_path / "bank").mkdir()
    monkeypatch.chdir(tmp_path)
    given = ["tune", "model.py:make", "--bank", "bank", "--time-budget", "0.001s", "--job-type", job]
    modules = of_jumar(loaded(given))
    assert len(modules) <= 200
    assert not {"jumar.tune.search.precision.search", "jumar.capture.process", "jumar.tune.bank.exchange"} & modules
