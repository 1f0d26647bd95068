"""Backward passes run in the thread that asks for them, as on the CPU.

PyTorch gives each device a thread of its own for backward passes, which keeps an accelerator's queue
filled while Python goes on. Here the work is the CPU's, and a second thread costs: glibc serves it from a
heap of its own, so that memory freed by the one is not reused by the other (ResNet-50 then took 1.24 times the
CPU's memory), and it has threads of its own for parallel kernels, whose number may differ and with it the
last bits of sums. Threads that a program starts itself keep PyTorch's default.
"""

from __future__ import annotations

import torch


def install() -> None:
    """Let backward passes of the calling thread run in it."""
    torch.autograd.set_multithreading_enabled(False)
