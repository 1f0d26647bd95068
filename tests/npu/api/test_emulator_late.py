"""An NPU that comes up after the first backward pass of a process, which starts PyTorch's threads for devices."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import threading
import torch
torch.ones(2, requires_grad=True).sum().backward()
import jumar

def step():
    x = torch.ones(2, requires_grad=True, device="npu")
    (x * 2).sum().backward()
    print(x.grad.tolist())

with jumar.emulate():
    step()
    other = threading.Thread(target=step)
    other.start()
    other.join()
"""


def test_it_works_in_the_main_thread_and_says_in_one_sentence_why_not_in_others():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "[2.0, 2.0]\n"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("jumar.base.errors.DeviceError: a backward pass on the NPU needs a thread")
    assert last.endswith("Bring the NPU up at the start of the program.")
