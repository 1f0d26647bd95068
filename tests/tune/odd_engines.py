"""Engines that go wrong in every way, building, computing or loading, and the provider that plans are built with."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
from typing import ClassVar

import torch
from plan_models import Plain, eager

from jumar.tune.plan.provider import PlanProvider


class IllegalInstruction(Plain):
    """Computes with an instruction that no x86 or ARM processor has."""

    name = "illegal"

    def build(self, site, settings):
        return _run_bytes(b"\x0f\x0b\x0f\x0b" if os.uname().machine == "x86_64" else b"\x00\x00\x00\x00")


class WildPointer(Plain):
    """Writes to an address that is not mapped, while it is built."""

    name = "wild"

    def build(self, site, settings):
        ctypes.memset(8, 0, 1)
        return eager(site)


class Stuck(Plain):
    """Does not come to the end of its compilation, and does not listen to SIGTERM."""

    name = "stuck"

    def build(self, site, settings):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)


class Hungry(Plain):
    """Takes memory without end while it is built."""

    name = "hungry"

    def build(self, site, settings):
        self.kept = [torch.ones(64, 1 << 20) for _ in range(10_000)]
        return eager(site)


class OutOfMemoryKilled(Plain):
    """Is ended by SIGKILL in the middle of a call, as the kernel does when memory runs out."""

    name = "oom_killed"

    def build(self, site, settings):
        def call(*tensors):
            os.kill(os.getpid(), signal.SIGKILL)

        return call


class Refuses(Plain):
    name = "refuses"

    def build(self, site, settings):
        raise NotImplementedError("no such operator")


class NotANumber(Plain):
    """Is fast and wrong: NaN in one element."""

    name = "nan"

    def build(self, site, settings):
        function = eager(site)

        def call(*tensors):
            outputs = function(*tensors)
            outputs[0].view(-1)[0] = float("nan")
            return outputs

        return call


def _run_bytes(code: bytes):
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(None)(address)

    def call(*tensors):
        function()
        return memory

    return call


ENGINES = (
    Plain(),
    IllegalInstruction(),
    WildPointer(),
    Stuck(),
    Hungry(),
    OutOfMemoryKilled(),
    Refuses(),
    NotANumber(),
)


class OddPlans(PlanProvider):
    """Builds plans with the engines of this file."""

    engines: ClassVar = ENGINES
    preload = ()
