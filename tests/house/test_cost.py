"""What a command loads: counted in a process of its own, so that no test measures time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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
    assert len(of_jumar(modules)) <= 200
    assert not {"torch", "numpy"} & modules


def test_explaining_a_rule_loads_few_modules() -> None:
    modules = loaded(["rule", "JM101"])
    assert len(of_jumar(modules)) <= 30
    assert not {"torch", "numpy", "libcst"} & modules
