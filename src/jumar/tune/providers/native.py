"""Impl: ATen's own kernels in place of oneDNN's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from jumar.tune.engines.base import Site
from jumar.tune.machine import Machine
from jumar.tune.operators import PRODUCTS
from jumar.tune.policy import Policy
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task

_CHOOSES = PRODUCTS | {"convolution", "gelu"}
"""Operators for which ATen chooses between its own kernels (or the BLAS library) and oneDNN."""


class Native(Provider):
    """ATen eager with oneDNN turned off for the one call."""

    name = "aten_native"
    kind = "Impl"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where ATen has the choice."""
        return [self.policy()] if task.base in _CHOOSES else []

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
