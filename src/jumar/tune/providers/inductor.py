"""Impl: TorchInductor, through `torch.compile`."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from jumar.tune.engines.base import Site
from jumar.tune.machine import Machine
from jumar.tune.policy import Policy
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task


class Inductor(Provider):
    """The operator, with any layout conversions around it, compiled to C++ as one graph of static shape."""

    name = "inductor"
    kind = "Impl"
    devices = frozenset({"cpu", "cuda"})
    preload = ("torch._dynamo", "torch._inductor.compile_fx")

    def unavailable(self, machine: Machine) -> str:
        """Say that it needs a C++ compiler."""
        if machine.compiler:
            return ""
        return "TorchInductor needs a C++ compiler and none was found; install g++ or set CXX."

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it for every task."""
        return [self.policy()]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Compile now, so that compiling is not timed; a graph break is an error."""
        import torch
        from torch._inductor import config

        compiled: Function = torch.compile(_with_own_code(function), dynamic=False, fullgraph=True)
        # In this process: its limits and its end are the candidate's. Not for good: a plan is built in programs, too.
        with torch.no_grad(), config.patch(compile_threads=1):
            compiled(*example)
        return compiled


def _with_own_code(function: Function) -> Function:
    """Return `function` behind a code object of its own.

    PyTorch keeps what it compiled by code object, looks through all of it in each call, and refuses the ninth. The
    operators of a model are functions of the same few lines: together they would be one code object.
    """

    def call(*tensors: Any) -> Any:
        return function(*tensors)

    return FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)
