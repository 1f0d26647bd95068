"""The process group of emulated devices.

The process group relabels npu tensors as the CPU tensors they are and gives them to a Gloo group, so
DDP, its C++ reducer included, works as on any backend. What Gloo lacks is composed of what it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from jumar.npu.core import events
from jumar.npu.core.overloads import tensors_in
from jumar.npu.core.retag import to_cpu
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.groups import GLOO_AVERAGES, outlives
from jumar.npu.dispatch.arguments import alias
from jumar.npu.parallel.hccl.limits import check_dtype, check_ranks
from jumar.npu.parallel.hccl.work import Collective, Together, Transfer

Tensor = torch.Tensor
c10d: Any = torch._C._distributed_c10d
_ProcessGroup: Any = dist.ProcessGroup

REDUCTIONS = frozenset({"allreduce", "allreduce_coalesced", "reduce", "reduce_scatter"})


class EmulatedHCCL(_ProcessGroup):  # type: ignore[misc]
    """A process group for npu tensors. Each method is the collective of that name in torch.distributed."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        check_ranks(size)
        self._gloo: Any = c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
        outlives(self._gloo, self)
        self._rank, self._num_ranks = rank, size
        self._name, self._description = "", ""
        self._started: list[Any] | None = None
        """Works begun since `_start_coalescing`."""
        self._register_backend(torch.device("npu"), dist.ProcessGroup.BackendType.CUSTOM, self._gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)  # whom torch 2.15 asks for the group's name

    def _run(self, name: str, results: Any, *args: Any) -> Any:
        start_ns = time.perf_counter_ns()
        given = list(tensors_in((results,)))
        if given:
            check_dtype(name, given[0].dtype, reduces=name in REDUCTIONS)
        own, finish = (args[-1], None) if name not in REDUCTIONS else self._averaging(args[-1], args[0])
        return self._told(
            name, results, start_ns, Collective(getattr(self._gloo, name)(*args[:-1], own), results, finish)
        )

    def _averaging(self, opts: Any, parts: Sequence[Tensor]) -> tuple[Any, Callable[[], None] | None]:
        """Return options that Gloo takes, and what makes an average of its sums where it has none itself."""
        if GLOO_AVERAGES or opts.reduceOp != dist.ReduceOp.AVG:
            return opts, None
        sums = type(opts)()
        root = None
        if isinstance(opts, c10d.ReduceOptions):
            sums.rootRank, sums.rootTensor, root = opts.rootRank, opts.rootTensor, opts.rootRank

        def divide() -> None:
            for part in parts if root in (None, self._rank) else ():
                part.div_(self._num_ranks)

        return sums, divide

    def _told(self, name: str, results: Any, start_ns: int, work: Any) -> Any:
        """Tell the listeners of a collective that has begun, and keep it for `_end_coalescing`."""
        if STATE.listeners:
            events.tell(f"hccl::{name}", (results,), {"num_ranks": self._num_ranks}, results, start_ns)
        if self._started is not None:
            self._started.append(work)
        return work

    def _relabel(self, value: Any) -> Any:
        """Return tensors, or nested lists of them, as CPU tensors over the same memory.

        Raises RuntimeError, as PyTorch does, for a CPU tensor in a group of the backend `hccl` alone.
        """
        if not isinstance(value, Tensor):
            return [self._relabel(item) for item in value]
        if not value.is_cpu:
            return alias(value)
        if "cpu" not in str(dist.distributed_c10d._world.pg_backend_config.get(self, "cpu")):
            raise RuntimeError("No backend type associated with device type cpu")
        return value

    def getGroupName(self) -> str:
        """Return the name PyTorch gave the group."""
        return self._name

    def setGroupName(self, name: str) -> None:
        """Take the name of the group."""
        self._name = name

    def getGroupDesc(self) -> str:
        """Return the description PyTorch gave the group."""
        return self._description

    def setGroupDesc(self, description: str) -> None:
        """Take the description of the group."""
        self._description = description

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def _get_backend(self, device: Any) -> Any:
        """Return the group itself for npu tensors, as the vendor's backend has the methods below; Gloo's else."""
        return self if torch.device(device).type == "npu" else super()._get_backend(device)

    def get_hccl_comm_name(self, rank: int, init_comm: bool = True) -> str:
        """Return the communicator's name, which fused communication operators take."""
        return f"jumar_{self._name}"

    def sum_on_host(self, values: Tensor) -> Tensor:
        """Sum a CPU tensor over all ranks, in place: what fused communication operators are made of."""
        self._gloo.allreduce([values], c10d.AllreduceOptions()).wait()
        return values

    def _start_coalescing(self, device: Any) -> None:
        """Collect the works of the collectives that follow."""
        self._started = []

    def _end_coalescing(self, device: Any) -> Any:
        """Return one work for all collectives since `_start_coalescing`."""
        works, self._started = self._started or [], None
        return Together(works)

    def getBackendName(self) -> str:
        """Return `hccl`."""
        return "hccl"

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Combine each tensor over all ranks, in place."""
        return self._run("allreduce", tensors, self._relabel(_listed(tensors)), opts or c10d.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Combine several tensors over all ranks, in place."""
        return self._run(
            "allreduce_coalesced", tensors, self._relabel(tensors), opts or c10d.AllreduceCoalescedOptions()
        )

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Give every rank the root's tensors."""
        return self._run("broadcast", tensors, self._relabel(_listed(tensors)), opts or c10d.BroadcastOptions())

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Combine each tensor over all ranks into the root's."""
        return self._run("reduce", tensors, self._relabel(_listed(tensors)), opts or c10d.ReduceOptions())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give every rank the inputs of all."""
        return self._run(
            "allgather", outputs, self._relabel(outputs), self._relabel(inputs), opts or c10d.AllgatherOptions()
        )

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give the root the inputs of all."""
        return self._run("gather", outputs, self._relabel(outputs), self._relabel(inputs), opts or c10d.GatherOptions())

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give every rank its part of the root's inputs."""
        return self._run(
            "scatter", outputs, self._relabel(outputs), self._relabel(inputs), opts or c10d.ScatterOptions()
        )

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all ranks."""
        return self._run("barrier", [], c10d.BarrierOptions())

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        """Send to a rank."""
        return Transfer(self._gloo.send(self._relabel(tensors), dst, tag), tensors)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        """Receive from a rank."""
        return Transfer(self._gloo.recv(self._relabel(tensors), src, tag), tensors)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive from any rank."""
        return Transfer(self._gloo.recv_anysource(self._relabel(tensors), tag), tensors)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Give every rank the inputs of all, in one tensor."""
        parts = [list(output.view(self._num_ranks, -1).unbind(0))]
        flat = [input.reshape(-1)]
        return self._run("allgather", output, self._relabel(parts), self._relabel(flat), c10d.AllgatherOptions())

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do `all_gather_single` for several tensors."""
        return Together([self.all_gather_single(*pair) for pair in zip(outputs, inputs, strict=True)])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Combine the inputs over all ranks and keep the own part."""
        options = c10d.AllreduceOptions()
        if opts is not None:
            options.reduceOp = opts.reduceOp
        start_ns = time.perf_counter_ns()
        check_dtype("reduce_scatter", inputs[0][0].dtype, reduces=True)
        reduced = [self._relabel(part).clone() for part in inputs[0]]
        options, divide = self._averaging(options, [reduced[self._rank]])
        works = [self._gloo.allreduce([part], options) for part in reduced]
        own = works[self._rank]

        def finish() -> None:
            Together(works).wait()
            if divide is not None:
                divide()
            _fill(outputs[0], reduced[self._rank])

        return self._told("reduce_scatter", outputs, start_ns, Collective(own, outputs, finish))

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """Do `reduce_scatter` for parts in one tensor."""
        parts = [list(input.reshape(self._num_ranks, *output.shape).unbind(0))]
        return self.reduce_scatter([output], parts, opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do `reduce_scatter_single` for several tensors."""
        return Together([self.reduce_scatter_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)])

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
            self._relabel(output),
            self._relabel(input),
            output_sizes,
            input_sizes,
            c10d.AllToAllOptions(),
        )

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Exchange tensors between all ranks."""
        sent = torch.cat([self._relabel(item).reshape(-1) for item in inputs])
        received = torch.empty(sum(item.numel() for item in outputs), dtype=sent.dtype, device="cpu")
        sizes = [item.numel() for item in outputs]
        start_ns = time.perf_counter_ns()
        work = self._gloo.alltoall_base(
            received, sent, sizes, [item.numel() for item in inputs], c10d.AllToAllOptions()
        )

        def finish() -> None:
            for output, part in zip(outputs, torch.split(received, sizes), strict=True):
                _fill(output, part.view(output.shape))

        return self._told("alltoall", outputs, start_ns, Collective(work, outputs, finish))

    # NOTE: the names of these four before torch 2.13.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _fill(target: Tensor, value: Tensor) -> None:
    (target if target.is_cpu else to_cpu(target)).copy_(value)
