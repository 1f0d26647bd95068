"""Where a trial computes, and how its time is known: a real device's is measured, an emulated NPU's is estimated."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from jumar.base.findings import Json
from jumar.tune.engines.base import Site
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work
from jumar.tune.graph.inputs import overwrite
from jumar.tune.measure.worker.messages import Trial
from jumar.tune.measure.worker.pairs import REST_S, Pairs, measure_pairs
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain, estimated_gain, gain_of
from jumar.tune.model.task import Function

Call = Callable[[], Any]
NUM_STEPS = 3
"""Calls whose times are estimated; their median counts, since the first one may pay for what is made once."""


class Busy(Exception):
    """Other programs used the machine: too few pairs are undisturbed."""


class Cpu:
    """This process's CPU."""

    name = "cpu"
    """The device, and what else decides on the values that it computes."""

    limits_memory = True
    """Whether a limit of the process's memory leaves it working: drivers reserve far more than they use."""

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `tensor` where functions compute, with its strides."""
        return tensor

    def work(self, work: Work) -> Work:
        """Return `work` as it computes there."""
        return work

    def hosted(self, function: Function) -> Function:
        """Return `function` as one that takes and returns the CPU's tensors."""
        return function

    def site(self, site: Site) -> Site:
        """Return `site` with its tensors where functions compute."""
        return site

    def gain(self, before: Call, after: Call, trial: Trial) -> Gain:
        """Return what `after` gains over `before`. Raises Busy when other programs disturbed too much."""
        rest_s = REST_S if trial.num_threads > 1 else 0.0
        seed = trial.seed + trial.take
        pairs = measure_pairs(before, after, trial.effort, min_gain=trial.min_gain, seed=seed, rest_s=rest_s)
        if len(pairs.before_us) < pairs.least:
            raise Busy(_busy(pairs))
        return gain_of(pairs.before_us, pairs.after_us, pairs.calls_per_sample, pairs.num_disturbed)


class Accelerator(Cpu):
    """A device beside the CPU: `cuda`, or the vendor's `npu`. Tensors are copied there and back to be compared.

    NOTE: nothing here touches the device before the first trial: its context would not survive a fork.
    """

    limits_memory = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._device = torch.device(name)

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the device, with the same strides."""
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            return tensor.to(self._device)  # expanded dimensions cannot be written to
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self._device)
        return made.copy_(tensor)

    def work(self, work: Work) -> Work:
        """Return `work` with the tensors that a graph's operators make on the device."""
        return placed(work, self._device.type) if isinstance(work, Graph) else work

    def hosted(self, function: Function) -> Function:
        """Copy the inputs to the device and the outputs back, and inputs that were written to as well."""

        def call(*tensors: torch.Tensor) -> Any:
            placed = [self.place(tensor) for tensor in tensors]
            versions = [tensor._version for tensor in placed]
            outputs = function(*placed)
            for tensor, there, version in zip(tensors, placed, versions, strict=True):
                if there._version != version:
                    overwrite(tensor, there.cpu())
            if outputs is None or isinstance(outputs, torch.Tensor):
                return _to_host(outputs)
            return tuple(map(_to_host, outputs))

        return call

    def site(self, site: Site) -> Site:
        """Return `site` with graph, weights and example on the device."""
        constants = {place: self.place(tensor) for place, tensor in site.constants.items()}
        graph = placed(site.graph, self._device.type)
        return replace(site, graph=graph, constants=constants, example=[self.place(one) for one in site.example])

    def gain(self, before: Call, after: Call, trial: Trial) -> Gain:
        """Measure from the first call to the end of the last one's kernels. Raises Busy as on the CPU."""
        synchronise = torch.get_device_module(self._device.type).synchronize
        return super().gain(_ended(before, synchronise), _ended(after, synchronise), trial)


class EmulatedNpu(Accelerator):
    """The emulated NPU: values are computed as its numerics say, times are those of its analytic model."""

    limits_memory = True

    def __init__(self, soc: str) -> None:
        """Bring it up in this process. Raises DeviceError for a chip that is not known."""
        from jumar.device import DevicePlan, activate

        super().__init__(activate(DevicePlan(soc=soc, real="never", num_devices=1)).device_type)
        self.name = f"npu:{soc}"

    def gain(self, before: Call, after: Call, trial: Trial) -> Gain:
        """Return what `after` gains by the analytic model. Raises TuneError for work that costs nothing by it."""
        times = [self._estimated_us(call, is_whole=isinstance(trial.task, Graph)) for call in (before, after)]
        if min(times) <= 0:
            raise TuneError("the analytic model gives it no time: no part of it runs on the device.")
        return estimated_gain(*times)

    def _estimated_us(self, call: Call, *, is_whole: bool) -> float:
        """Return the time of a call: of a model host and device, of an operator the device alone.

        The host issues operators while the device computes earlier ones; that is the model's, not the operator's.
        """
        from jumar.npu.profiler.summary import watch

        call()
        with watch() as watching:
            for _ in range(NUM_STEPS):
                call()
                torch.get_device_module("npu").synchronize()
                watching.end_step()
        steps = watching.timeline.steps()[:NUM_STEPS]
        return statistics.median(step.duration_us if is_whole else step.computing_us for step in steps)


@functools.cache
def device_of(name: str) -> Cpu:
    """Return the device of this process, once, by `Machine.target`. Raises DeviceError for an unknown chip."""
    kind, _, soc = name.partition(":")
    if soc:
        return EmulatedNpu(soc)
    return Cpu() if kind == "cpu" else Accelerator(kind)


def _ended(call: Call, synchronise: Callable[[], object]) -> Call:
    """Return `call` as one that lasts until the device has done its work."""

    def run() -> Any:
        result = call()
        synchronise()
        return result

    return run


def _to_host(tensor: torch.Tensor | None) -> torch.Tensor | None:
    if tensor is None:
        return None
    strides = tensor.stride()
    found = tensor.cpu()
    if found.stride() == strides:
        return found
    made = torch.empty_strided(found.shape, strides, dtype=found.dtype)
    overwrite(made, found)
    return made


def _busy(pairs: Pairs) -> str:
    num_clean = len(pairs.before_us)
    return (
        f"other programs used the machine: {num_clean} of {num_clean + pairs.num_disturbed} pairs were undisturbed "
        f"and {pairs.least} are needed"
    )


def placed(graph: Graph, device: str) -> Graph:
    """Return `graph` with every device that its operators name replaced by `device`, e.g. `npu`."""
    return replace(graph, nodes=[node.changed(lambda argument: _there(argument, device)) for node in graph.nodes])


def _there(argument: Json, device: str) -> Json:
    if isinstance(argument, list):
        return [_there(item, device) for item in argument]
    return {"device": device} if isinstance(argument, dict) and "device" in argument else argument
