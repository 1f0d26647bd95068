"""`Cost`: the estimated time of an operator: its kernels, with the time of each unit, and the host's part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jumar.soc.estimate.shapes import TensorShape

Core = Literal["AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU", "HCCL", "COPY", "HOST", "NONE"]
"""As profiles of the vendor name the unit; COPY: the copy engine, HOST: the host's CPU, NONE: nothing runs."""
Bound = Literal["cube", "vector", "scalar", "memory", "l2", "launch", "ai_cpu", "bus", "host", "link", "none"]
Role = Literal["operator", "transdata", "contiguous", "cast"]
"""Why a kernel runs: for the operator itself, or inserted before or after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel on the device. `duration_us` is the slowest unit's time plus the launch."""

    type: str
    """The vendor's operator type: `Conv2D`."""
    core: Core
    duration_us: float
    bound_by: Bound
    cube_us: float = 0.0
    vector_us: float = 0.0
    scalar_us: float = 0.0
    memory_us: float = 0.0
    launch_us: float = 0.0
    num_blocks: int = 1
    inputs: tuple[TensorShape, ...] = ()
    outputs: tuple[TensorShape, ...] = ()
    role: Role = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The estimate of one operator call, in microseconds. Sums are over its kernels, which run one after another."""

    name: str
    kernels: tuple[Kernel, ...] = ()
    host_us: float = 0.0
    """Host work to issue it."""
    transfer_us: float = 0.0
    """Copy between host and device."""
    waits: bool = False
    """The host waits until the device has done it (a copy to the host)."""
    assumed: tuple[str, ...] = ()
    """Figures of the chip that are a sibling's."""

    is_estimate: Literal[True] = True

    @property
    def total_us(self) -> float:
        """Time on the device, copies between host and device included."""
        return sum(kernel.duration_us for kernel in self.kernels) + self.transfer_us

    @property
    def cube_us(self) -> float:
        """Time of the matrix unit."""
        return sum(kernel.cube_us for kernel in self.kernels)

    @property
    def vector_us(self) -> float:
        """Time of the vector unit."""
        return sum(kernel.vector_us for kernel in self.kernels)

    @property
    def scalar_us(self) -> float:
        """Time of the scalar unit."""
        return sum(kernel.scalar_us for kernel in self.kernels)

    @property
    def memory_us(self) -> float:
        """Time to move the data, of memory or L2 as they fit."""
        return sum(kernel.memory_us for kernel in self.kernels)

    @property
    def launch_us(self) -> float:
        """Launches of all kernels."""
        return sum(kernel.launch_us for kernel in self.kernels)

    @property
    def transdata_us(self) -> float:
        """Kernels that change formats for this operator."""
        return self.of_role("transdata")

    @property
    def contiguous_us(self) -> float:
        """Kernels that make strided inputs contiguous for this operator."""
        return self.of_role("contiguous")

    @property
    def cast_us(self) -> float:
        """Kernels that change dtypes for this operator."""
        return self.of_role("cast")

    @property
    def core(self) -> Core:
        """The unit of the longest kernel of the operator itself."""
        longest = self._longest()
        if longest is not None:
            return longest.core
        return "COPY" if self.transfer_us else "NONE"

    @property
    def bound_by(self) -> Bound:
        """What limits the longest kernel of the operator itself."""
        longest = self._longest()
        if longest is not None:
            return longest.bound_by
        return "bus" if self.transfer_us else "none"

    def of_role(self, role: Role) -> float:
        """Return the time of the kernels that run for this reason."""
        return sum(kernel.duration_us for kernel in self.kernels if kernel.role == role)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON's types, marked as an estimate."""
        names = (
            "total_us",
            "cube_us",
            "vector_us",
            "memory_us",
            "launch_us",
            "transdata_us",
            "contiguous_us",
            "cast_us",
        )
        return {
            "name": self.name,
            "is_estimate": True,
            **{name: getattr(self, name) for name in names},
            "host_us": self.host_us,
            "core": self.core,
            "bound_by": self.bound_by,
            "assumed": list(self.assumed),
        }

    def _longest(self) -> Kernel | None:
        own = [kernel for kernel in self.kernels if kernel.role == "operator"] or list(self.kernels)
        return max(own, key=lambda kernel: kernel.duration_us, default=None)
