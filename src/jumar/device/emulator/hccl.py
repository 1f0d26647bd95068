"""`init_process_group("hccl")`: collectives of emulated devices over Gloo.

The process group relabels npu tensors as the CPU tensors they are and gives them to a Gloo group, so
DDP, its C++ reducer included, works as on any backend. What Gloo lacks is composed of what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from jumar.device.emulator.arguments import alias
from jumar.device.emulator.retag import to_cpu

Tensor = torch.Tensor
c10d: Any = torch._C._distributed_c10d
_ProcessGroup: Any = dist.ProcessGroup
_Work: Any = c10d.Work


def _relabel(value: Any) -> Any:
    """Return tensors, or nested lists of them, as CPU tensors over the same memory."""
    if isinstance(value, Tensor):
        return value if value.is_cpu else alias(value)
    return [_relabel(item) for item in value]


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)]


class _Collective(_Work):  # type: ignore[misc]
    """A collective under way at Gloo; `finish` is called once when it is done."""

    def __init__(self, inner: Any, results: Any, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._inner, self._results, self._finish = inner, results, finish

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done. Raises RuntimeError with what went wrong."""
        if self._inner is not None:
            self._inner.wait(*(() if timeout is None else (timeout,)))
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """Return whether it is done, well or not."""
        return self._inner is None or bool(self._inner.is_completed())

    def get_future(self) -> Any:
        """Return a future that is done: of the npu tensors, or Gloo's own with the error in it.

        NOTE: this waits. DDP's reducer reads the future in C++, where only Gloo's own future can carry an
        error, and PyTorch cannot chain futures of a device whose streams are written in Python.
        """
        try:
            self.wait()
        except RuntimeError:
            return self._inner.get_future()
        future: Any = torch.futures.Future(devices=[torch.device("npu", 0)])
        future.set_result(_tensors(self._results))
        return future


class EmulatedHCCL(_ProcessGroup):  # type: ignore[misc]
    """A process group for npu tensors. Each method is the collective of that name in torch.distributed."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo: Any = c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._rank, self._num_ranks = rank, size
        self._name = ""

    def _run(self, name: str, results: Any, *args: Any) -> Any:
        return _Collective(getattr(self._gloo, name)(*args), results)

    def getBackendName(self) -> str:
        """Return `hccl`."""
        return "hccl"

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Combine each tensor over all ranks, in place."""
        return self._run("allreduce", tensors, _relabel(_listed(tensors)), opts or c10d.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Combine several tensors over all ranks, in place."""
        return self._run("allreduce_coalesced", tensors, _relabel(tensors), opts or c10d.AllreduceCoalescedOptions())

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Give every rank the root's tensors."""
        return self._run("broadcast", tensors, _relabel(_listed(tensors)), opts or c10d.BroadcastOptions())

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Combine each tensor over all ranks into the root's."""
        return self._run("reduce", tensors, _relabel(_listed(tensors)), opts or c10d.ReduceOptions())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give every rank the inputs of all."""
        return self._run("allgather", outputs, _relabel(outputs), _relabel(inputs), opts or c10d.AllgatherOptions())

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give the root the inputs of all."""
        return self._run("gather", outputs, _relabel(outputs), _relabel(inputs), opts or c10d.GatherOptions())

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give every rank its part of the root's inputs."""
        return self._run("scatter", outputs, _relabel(outputs), _relabel(inputs), opts or c10d.ScatterOptions())

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all ranks."""
        return self._run("barrier", [], c10d.BarrierOptions())

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        """Send to a rank."""
        return _Keeping(self._gloo.send(_relabel(tensors), dst, tag), tensors)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        """Receive from a rank."""
        return _Keeping(self._gloo.recv(_relabel(tensors), src, tag), tensors)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive from any rank."""
        return _Keeping(self._gloo.recv_anysource(_relabel(tensors), tag), tensors)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Give every rank the inputs of all, in one tensor."""
        parts = [list(output.view(self._num_ranks, -1).unbind(0))]
        flat = [input.reshape(-1)]
        return self._run("allgather", output, _relabel(parts), _relabel(flat), c10d.AllgatherOptions())

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do `all_gather_single` for several tensors."""
        works = [self.all_gather_single(output, item) for output, item in zip(outputs, inputs, strict=True)]
        return works[-1]

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Combine the inputs over all ranks and keep the own part."""
        options = c10d.AllreduceOptions()
        if opts is not None:
            options.reduceOp = opts.reduceOp
        reduced = [_relabel(part).clone() for part in inputs[0]]
        for part in reduced:
            self._gloo.allreduce([part], options).wait()
        own = reduced[self._rank]
        return _Collective(None, outputs, lambda: _fill(outputs[0], own))

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Do `reduce_scatter` for parts in one tensor."""
        parts = [list(input.reshape(self._num_ranks, *output.shape).unbind(0))]
        return self.reduce_scatter([output], parts, opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do `reduce_scatter_single` for several tensors."""
        works = [self.reduce_scatter_single(output, item, opts) for output, item in zip(outputs, inputs, strict=True)]
        return works[-1]

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_sizes: Any,
        input_sizes: Any,
        opts: Any = None,
    ) -> Any:
        """Exchange parts of one tensor between all ranks."""
        return self._run(
            "alltoall_base",
            output,
            _relabel(output),
            _relabel(input),
            output_sizes,
            input_sizes,
            c10d.AllToAllOptions(),
        )

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Exchange tensors between all ranks."""
        sent = torch.cat([_relabel(item).reshape(-1) for item in inputs])
        received = torch.empty(sum(item.numel() for item in outputs), dtype=sent.dtype, device="cpu")
        sizes = [item.numel() for item in outputs]
        work = self._gloo.alltoall_base(
            received, sent, sizes, [item.numel() for item in inputs], c10d.AllToAllOptions()
        )

        def finish() -> None:
            for output, part in zip(outputs, torch.split(received, sizes), strict=True):
                _fill(output, part.view(output.shape))

        return _Collective(work, outputs, finish)

    # NOTE: the names of these four before torch 2.13.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


class _Keeping(_Work):  # type: ignore[misc]
    """A send or receive, which keeps its tensors until it is waited for."""

    def __init__(self, inner: Any, tensors: Any) -> None:
        super().__init__()
        self._inner, self._tensors = inner, tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        return bool(self._inner.wait() if timeout is None else self._inner.wait(timeout))

    def is_completed(self) -> bool:
        return bool(self._inner.is_completed())


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _fill(target: Tensor, value: Tensor) -> None:
    (target if target.is_cpu else to_cpu(target)).copy_(value)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> EmulatedHCCL:
    return EmulatedHCCL(store, rank, size, timeout)


def install() -> None:
    """Register the backend `hccl` for npu tensors."""
    if dist.is_available() and "HCCL" not in dir(dist.Backend):
        dist.Backend.register_backend("hccl", _create, devices=["npu"])
