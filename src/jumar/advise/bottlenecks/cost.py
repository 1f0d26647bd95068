"""`Cost`: what a finding costs a step, in microseconds, so that findings can be put in order.

The estimate is an analytic one for the chosen SoC, not a measurement: bytes over the memory's
bandwidth, bytes over the host bus, and a fixed price for a launch, a synchronisation and a compile.
Memory bandwidths come from the SoC profiles; the fixed prices are orders of magnitude, chosen once and
written here. They only sort a list. They do not predict the time of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

from jumar.soc.profiles import SocProfile

DEFAULT_MEMORY_BYTES_PER_US = 1.0e6
"""Assumed where the SoC's profile has no memory bandwidth: about that of an Ascend 910A."""
BUS_BYTES_PER_US = 1.6e4
"""PCIe 3.0 x16, 15.75 GB/s in theory; slower than most machines, never twice too fast."""
LAUNCH_US = 10.0
"""Assumed: the host's work to start one operator in eager mode."""
SYNCHRONISATION_US = 50.0
"""Assumed: the queue runs empty and is filled again."""
COMPILE_US = 5.0e5
"""Assumed: one operator compiled online, where the SoC does that by default."""
SHAPE_CHANGE_US = 200.0
"""Assumed: kernel selection and tiling for a shape not seen before, where kernels are precompiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a complete fix of the finding would save per step."""

    memory_bytes: float = 0.0
    bus_bytes: float = 0.0
    num_launches: float = 0.0
    num_synchronisations: float = 0.0
    num_compiles: float = 0.0
    host_us: float = 0.0
    """Measured host time that has nothing to do with the device, e.g. waiting for data."""

    def estimate_us(self, soc: SocProfile, *, compiles_online: bool = False) -> float:
        """Return the estimate for `soc` in microseconds a step."""
        compile_us = COMPILE_US if compiles_online else SHAPE_CHANGE_US
        return (
            self.memory_bytes / memory_bytes_per_us(soc)
            + self.bus_bytes / BUS_BYTES_PER_US
            + self.num_launches * LAUNCH_US
            + self.num_synchronisations * SYNCHRONISATION_US
            + self.num_compiles * compile_us
            + self.host_us
        )


def memory_bytes_per_us(soc: SocProfile) -> float:
    """Return the device memory's bandwidth in bytes a microsecond (MB/s)."""
    return DEFAULT_MEMORY_BYTES_PER_US if soc.memory_bandwidth is None else soc.memory_bandwidth / 1e6
