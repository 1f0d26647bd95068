"""An NPU that comes up after the first backward pass of a process."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import torch
torch.ones(2, requires_grad=True).sum().backward()
import jumar
with jumar.emulate():
    x = torch.ones(2, requires_grad=True, device="npu")
    print((x * 2).sum().item())
    (x * 2).sum().backward()
"""


def test_a_backward_pass_on_it_is_refused_in_one_sentence():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "4.0\n"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("jumar.errors.DeviceError: a backward pass on the NPU needs a thread")
    assert last.endswith("Bring the NPU up at the start of the program.")
