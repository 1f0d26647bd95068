"""Check that this machine's memory can hold what the emulated devices hold.

An NPU may have more memory than the machine that emulates it. Where it is known beforehand that the
machine's memory will not do, an error says so; the kernel would end the process without a word.
"""

from __future__ import annotations

from jumar.base import host
from jumar.base.errors import DeviceError
from jumar.base.text import size_text

_MARGIN = 1 / 50
"""Share of the machine's memory below which it counts as full."""


class HostMemoryError(DeviceError, MemoryError):
    """The machine cannot hold what the emulated device could."""


def require(size_bytes: int) -> None:
    """Raise HostMemoryError when the machine has not this much memory left."""
    available = host.memory().allocatable_bytes
    if available is not None and size_bytes > available:
        raise HostMemoryError(
            f"The emulated NPU keeps its tensors in this machine's memory, which has {size_text(available)} left; "
            f"a tensor of {size_text(size_bytes)} needs more. Free host memory, or use a smaller batch."
        )


def check_left(just_taken: int) -> None:
    """Raise HostMemoryError when a tensor of `just_taken` bytes has left the machine with next to no memory."""
    found = host.memory()
    available, total = found.allocatable_bytes, found.total_bytes
    if available is not None and total is not None and available < total * _MARGIN:
        raise HostMemoryError(
            f"The emulated NPU keeps its tensors in this machine's memory, which has {size_text(available)} of "
            f"{size_text(total)} left after a tensor of {size_text(just_taken)}. Use a smaller batch or a larger "
            "machine."
        )
