"""Time of one kernel from what it computes and moves: the slowest unit decides, units overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.soc.estimate.cost import Bound, Core, Kernel, Role
from jumar.soc.estimate.hardware import VECTOR_BYTES, Hardware
from jumar.soc.estimate.prices import Prices, Software
from jumar.soc.estimate.shapes import TensorShape, ceil_div

_BLOCK_BYTES = 16 * 1024
"""A vector kernel gives a core at least about this much, so small tensors use few cores (assumed)."""


@dataclass(frozen=True, slots=True)
class Model:
    """A chip and the software on it: what every formula needs."""

    hardware: Hardware
    software: Software

    @property
    def prices(self) -> Prices:
        """The assumed prices."""
        return self.software.prices

    @property
    def vector_core(self) -> Core:
        """Name of the unit that runs vector kernels."""
        return "AI_VECTOR_CORE" if self.hardware.is_split else "AI_CORE"

    def num_blocks(self, num_bytes: int) -> int:
        """Return the vector cores that a kernel over this much data uses."""
        return max(1, min(self.hardware.num_vector_cores, ceil_div(num_bytes, _BLOCK_BYTES)))

    def memory_us(self, num_bytes: float, working_set: float, share: float, cores_share: float = 1.0) -> float:
        """Return the time to move `num_bytes`; data of less than half the L2 is taken to be there."""
        chip = self.hardware
        rate = chip.l2_bytes_per_us if working_set <= chip.l2_bytes / 2 else chip.memory_bytes_per_us
        return num_bytes / (rate * share * cores_share)

    def level(self, working_set: float) -> Bound:
        """Return which memory `memory_us` counts with."""
        return "l2" if working_set <= self.hardware.l2_bytes / 2 else "memory"


def num_bytes(tensors: Sequence[TensorShape]) -> int:
    """Return the bytes of these tensors in memory."""
    return sum(tensor.stored_bytes for tensor in tensors)


def vector_kernel(
    model: Model,
    kernel_type: str,
    inputs: Sequence[TensorShape],
    outputs: Sequence[TensorShape],
    *,
    instructions: float = 1.0,
    moved_bytes: int | None = None,
    scalar_elements: int = 0,
    share: float | None = None,
    role: Role = "operator",
    core: Core | None = None,
) -> Kernel:
    """Return the kernel of a vector operator.

    `instructions` vector instructions an element of the largest tensor; `moved_bytes` where it is not every
    tensor once; `scalar_elements` are handled one by one; `share` of the memory's rate where it is not the usual.
    """
    working_set = num_bytes(inputs) + num_bytes(outputs)
    moved = working_set if moved_bytes is None else moved_bytes
    largest = max([*inputs, *outputs], key=lambda tensor: tensor.stored_bytes, default=None)
    blocks = model.num_blocks(working_set)
    chip, prices = model.hardware, model.prices
    part = blocks / chip.num_vector_cores
    cycles = 0.0 if largest is None else ceil_div(largest.stored_bytes, VECTOR_BYTES * blocks) * instructions
    times: dict[Bound, float] = {
        "vector": cycles / chip.frequency_mhz,
        "scalar": scalar_elements * prices.scalar_cycles / (chip.frequency_mhz * blocks),
        model.level(working_set): model.memory_us(moved, working_set, share or prices.memory_share, part),
    }
    return finished(model, kernel_type, core or model.vector_core, times, inputs, outputs, blocks, role)


def ai_cpu_kernel(
    model: Model,
    kernel_type: str,
    inputs: Sequence[TensorShape],
    outputs: Sequence[TensorShape],
    *,
    steps: float = 1.0,
    role: Role = "operator",
    elements_per_us: float | None = None,
) -> Kernel:
    """Return a kernel on the AI CPU: `steps` simple steps for each element of the largest tensor."""
    prices = model.prices
    elements = max((tensor.num_elements for tensor in (*inputs, *outputs)), default=0)
    busy = elements * steps / (elements_per_us or prices.ai_cpu_elements_per_us)
    return Kernel(
        type=kernel_type,
        core="AI_CPU",
        duration_us=busy + prices.ai_cpu_launch_us,
        bound_by="ai_cpu" if busy > prices.ai_cpu_launch_us else "launch",
        scalar_us=busy,
        launch_us=prices.ai_cpu_launch_us,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        role=role,
    )


def finished(
    model: Model,
    kernel_type: str,
    core: Core,
    times: dict[Bound, float],
    inputs: Sequence[TensorShape],
    outputs: Sequence[TensorShape],
    blocks: int,
    role: Role = "operator",
) -> Kernel:
    """Return the kernel whose units take `times`: the slowest one plus the launch."""
    slowest: Bound = max(times, key=lambda unit: times[unit])
    launch = model.prices.launch_us
    return Kernel(
        type=kernel_type,
        core=core,
        duration_us=times[slowest] + launch,
        bound_by=slowest if times[slowest] > launch else "launch",
        cube_us=times.get("cube", 0.0),
        vector_us=times.get("vector", 0.0),
        scalar_us=times.get("scalar", 0.0),
        memory_us=times.get("memory", 0.0) + times.get("l2", 0.0),
        launch_us=launch,
        num_blocks=blocks,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        role=role,
    )
