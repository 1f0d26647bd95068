"""Format: weights in the blocked formats that an NPU's matrix unit reads, and inputs converted to the same formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jumar.operators import has
from jumar.tune.engines.base import Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Task
from jumar.tune.providers.base import Provider

if TYPE_CHECKING:
    import torch

FORMATS = {"NCHW": 0, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "FRACTAL_NZ": 29}
"""The vendor's numbers (`aclFormat`, CANN's public headers)."""
CONVOLUTIONS = frozenset({"conv2d", "convolution"})


class NpuFormat(Provider):
    """`weight` is what a constant weight is cast to, once; `input`, if given, what inputs are cast to in each call.

    Outputs come back in the format they have without it. `torch.npu.config.allow_internal_format` is on during the
    call, as a program must have it that takes this up.
    """

    name = "npu_format"
    kind = "Format"
    devices = frozenset({"npu"})

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer the weight alone, then the inputs, too; nothing for an operator without a constant weight."""
        weight, given = ("FRACTAL_Z", "NC1HWC0") if task.base in CONVOLUTIONS else ("FRACTAL_NZ", "FRACTAL_NZ")
        rank = 4 if task.base in CONVOLUTIONS else 2
        is_product = has(task.operator, "product") and has(task.operator, "tuned")
        if not (task.base in CONVOLUTIONS or is_product) or not any(
            spec.constant and len(spec.shape) == rank for spec in task.tensors.values()
        ):
            return []
        return [self.policy(weight=weight), self.policy(weight=weight, input=given)]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Cast the weights here, and inputs and outputs in each call."""
        import torch

        from jumar.tune.graph.operators import function_of
        from jumar.tune.providers.borders import as_tuple

        is_single = isinstance(function(*example), torch.Tensor)
        settings: dict[str, Any] = dict(policy.settings)
        with _private_formats():
            weights = {place: _cast(tensor, settings["weight"]) for place, tensor in site.constants.items()}
        inner = function_of(site.graph, weights) if weights else function
        given = settings.get("input")

        def call(*tensors: torch.Tensor) -> Any:
            with _private_formats():
                outputs = inner(*[tensor if given is None else _cast(tensor, given) for tensor in tensors])
                made = tuple(map(_plain, as_tuple(outputs)))
            return made[0] if is_single else made

        return call


def _cast(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return a matrix or image in a format; other tensors (a bias) as they are."""
    import torch

    if tensor.dim() != (2 if name == "FRACTAL_NZ" else 4):
        return tensor
    cast: torch.Tensor = torch.ops.npu.npu_format_cast(tensor, FORMATS[name])
    return cast


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    base = FORMATS["NCHW" if tensor.dim() == 4 else "ND"]
    if torch.ops.npu.get_npu_format(tensor) in {FORMATS["NCHW"], FORMATS["ND"]}:
        return tensor
    cast: torch.Tensor = torch.ops.npu.npu_format_cast(tensor, base)
    return cast


@contextmanager
def _private_formats() -> Iterator[None]:
    """Let tensors have private formats within the block."""
    import torch

    config: Any = torch.get_device_module("npu").config
    before = config.allow_internal_format
    config.allow_internal_format = True
    try:
        yield
    finally:
        config.allow_internal_format = before
