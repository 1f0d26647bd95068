"""`Prices`: figures that no public document gives. `Software`: the switches between program and chip.

`Prices` are assumptions: orders of magnitude, chosen once. Three of them (marked) were set so that one row
each of the vendor's ShuffleNetV2 case comes out; jumar docs emulator-time-model says which and what is left.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from jumar.soc.profiles import SocProfile

StridedCopy = Literal["AI_CORE", "AI_CPU", "GATHER"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Assumed prices, in microseconds, bytes a microsecond (MB/s) or as shares of a documented rate."""

    launch_us: float = 3.0
    """From the end of one kernel to the start of the next one that is already queued, and block scheduling."""
    host_us: float = 12.0
    """Host work to issue one operator in eager mode through aclnn: Python, dispatch, tiling, task queue."""
    host_graph_compiler_us: float = 25.0
    """The same through the graph compiler's single-operator route (`acl_op`)."""
    host_view_us: float = 3.0
    """Host work of an operator that runs nothing on the device."""
    host_kernel_us: float = 4.0
    """Host work for each further kernel that one operator launches."""
    synchronise_us: float = 20.0
    """The host notices that the queue is empty and goes on."""
    compile_us: float = 500_000.0
    """One operator compiled online for a new shape, on the host."""
    memory_share: float = 0.6
    """What a kernel that streams gets of the memory's or the L2's rate."""
    cube_share: float = 0.8
    """What a large matrix product gets of the cube's rate."""
    transdata_share: float = 0.2
    """What a change of format gets of the memory's rate: it moves blocks of 32 bytes and transposes them."""
    strided_burst_bytes: int = 512
    """Runs shorter than this get the share (run / this) of the rate on AI Core, at least `strided_share`."""
    strided_share: float = 0.05
    """The least share of the memory's rate that a strided access on AI Core gets."""
    ai_cpu_launch_us: float = 30.0
    """Start of a kernel on the AI CPU."""
    ai_cpu_elements_per_us: float = 250.0
    """Elements an AI CPU kernel handles with one simple step each. Set by the ShuffleNetV2 case."""
    ai_cpu_scatter_elements_per_us: float = 450.0
    """Elements an AI CPU kernel adds to an address each. Set by the ShuffleNetV2 case."""
    scalar_cycles: float = 11.0
    """Cycles a core's scalar unit takes to move one element. Set by the ShuffleNetV2 case."""
    bus_bytes_per_us: float = 16_000.0
    """Between host and device, pinned memory: PCIe 3.0 x16."""
    pageable_share: float = 0.4
    """What ordinary host memory gets of the bus's rate."""
    bus_latency_us: float = 10.0
    """Start of one copy between host and device."""
    host_elements_per_us: float = 1_000.0
    """Elements the host's CPU handles for an operator that falls back to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What the versions of CANN and torch_npu do, where it changes what runs on the chip."""

    is_aclnn: bool = True
    """aclnn kernels; else the graph compiler's."""
    strided_copy: StridedCopy = "AI_CORE"
    """How a strided tensor is made contiguous: a strided copy, element by element on the AI CPU, or GatherV2."""
    scatter_add: Literal["AI_CORE", "AI_CPU"] = "AI_CORE"
    """Where `index_add` and similar operators run."""
    unaligned_gather: Literal["vector", "scalar"] = "vector"
    """How `index_select` moves rows whose bytes are no multiple of 32."""
    gathers_waste_bursts: bool = True
    """Rows shorter than a burst cost `index_select` a whole one."""
    casts_float32: bool = False
    """A float32 matrix product is cast to float16 and its result back (chips without a float32 cube)."""
    allow_hf32_convolution: bool = True
    allow_hf32_matmul: bool = False
    prices: Prices = Prices()


@functools.cache
def software(profile: SocProfile, is_aclnn: bool | None = None) -> Software:
    """Return what a current torch_npu does by default on this chip; `is_aclnn` chooses the route."""
    aclnn = profile.is_aclnn_default if is_aclnn is None else is_aclnn
    return Software(is_aclnn=aclnn, casts_float32="float32" not in profile.cube_dtypes)
