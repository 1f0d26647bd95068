"""Impl: ATen's own kernels in place of oneDNN's."""

from __future__ import annotations

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
        import torch

        # Not `mkldnn.flags(…)`: it takes 20 us a call and sets other flags, such as TF32, with it. Not
        # `mkldnn.enabled = …` either: a program may have frozen the flags (`disable_global_flags`).
        get, put = torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled

        def call(*tensors: torch.Tensor) -> Any:
            was = get()
            put(False)
            try:
                return function(*tensors)
            finally:
                put(was)

        return call
