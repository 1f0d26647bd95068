"""Schedule: fewer threads for one operator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from jumar.operators import has
from jumar.tune.engines.base import Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Task
from jumar.tune.providers.base import Provider


class Threads(Provider):
    """1, 2, 4, … threads below the default: small operators lose more to waking threads than they gain."""

    name = "threads"
    kind = "Schedule"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer the powers of two below the machine's default."""
        counts = (2**power for power in range(machine.num_threads.bit_length()))
        return [self.policy(num_threads=count) for count in counts if count < machine.num_threads]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Set the number before each call and put it back after it."""
        import torch

        count = int(str(policy.settings["num_threads"]))

        def call(*tensors: torch.Tensor) -> Any:
            before = torch.get_num_threads()  # of this call: the program may have set another since `apply`
            torch.set_num_threads(count)
            try:
                return function(*tensors)
            finally:
                torch.set_num_threads(before)

        return call


class Native(Provider):
    """ATen eager with oneDNN turned off for the one call."""

    name = "aten_native"
    kind = "Impl"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where ATen has the choice."""
        chooses = has(task.operator, "product") or task.base in {"convolution", "gelu"}
        return [self.policy()] if chooses else []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Turn oneDNN off around each call, and on again as it was."""

        def call(*tensors: Any) -> Any:
            _SWITCH.turn_off()
            try:
                return function(*tensors)
            finally:
                _SWITCH.put_back()

        return call


class _Switch:
    """oneDNN's switch, which is the process's and not the thread's: off while any call is under way.

    Calls of several threads that each put back what they found would leave it off for good: the second one finds it
    off, and may be the last to end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_calls = 0
        self._was_on = True

    def turn_off(self) -> None:
        """Begin a call."""
        import torch

        # Not `mkldnn.flags(…)`: it takes 20 us a call and sets other flags, such as TF32, with it. Not
        # `mkldnn.enabled = …` either: a program may have frozen the flags (`disable_global_flags`).
        with self._lock:
            if not self._num_calls:
                self._was_on = torch._C._get_mkldnn_enabled()
                torch._C._set_mkldnn_enabled(False)
            self._num_calls += 1

    def put_back(self) -> None:
        """End a call: the last one puts the switch back."""
        import torch

        with self._lock:
            self._num_calls -= 1
            if not self._num_calls:
                torch._C._set_mkldnn_enabled(self._was_on)


_SWITCH = _Switch()


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
