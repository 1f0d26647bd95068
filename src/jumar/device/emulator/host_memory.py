"""The memory of this machine, which holds what the emulated devices hold.

An NPU may have more memory than the machine that emulates it. Where it is known beforehand that the
machine's memory will not do, an error says so; the kernel would end the process without a word.
"""

from __future__ import annotations

from pathlib import Path

from jumar.errors import DeviceError

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_MARGIN = 1 / 50
"""Share of the machine's memory below which it counts as full."""


class HostMemoryError(DeviceError, MemoryError):
    """The machine cannot hold what the emulated device could."""


def require(size_bytes: int) -> None:
    """Raise HostMemoryError when the machine has not this much memory left."""
    available, _ = memory()
    if available is not None and size_bytes > available:
        raise HostMemoryError(
            f"The emulated NPU keeps its tensors in this machine's memory, which has {_gib(available)} left; a tensor "
            f"of {_gib(size_bytes)} needs more. Free host memory, or use a smaller batch or a larger machine."
        )


def check_left(just_taken: int) -> None:
    """Raise HostMemoryError when a tensor of `just_taken` bytes has left the machine with next to no memory."""
    available, total = memory()
    if available is not None and total is not None and available < total * _MARGIN:
        raise HostMemoryError(
            f"The emulated NPU keeps its tensors in this machine's memory, which has {_gib(available)} of "
            f"{_gib(total)} left after a tensor of {_gib(just_taken)}. Use a smaller batch or a larger machine."
        )


def memory() -> tuple[int | None, int | None]:
    """Return the bytes that are available to this process and the bytes there are; None where that is not known."""
    available, total = _machine()
    limit, used = _control_group()
    if limit is not None and used is not None and (total is None or limit < total):
        left = max(0, limit - used)
        return (left if available is None else min(left, available)), limit
    return available, total


def _machine() -> tuple[int | None, int | None]:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None, None
    sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    if "MemAvailable" not in sizes:
        return None, sizes.get("MemTotal")
    return sizes["MemAvailable"] + sizes.get("SwapFree", 0), sizes.get("MemTotal")


def _control_group() -> tuple[int | None, int | None]:
    """Return the limit and the use of the container; its page cache, which the kernel gives back, is not counted."""
    for limit_file, use_file, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit = int((_CGROUP / limit_file).read_text(encoding="ascii"))
            used = int((_CGROUP / use_file).read_text(encoding="ascii"))
            lines = (_CGROUP / use_file).with_name("memory.stat").read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):  # no such hierarchy, or the limit is `max`
            continue
        reclaimable = next((int(line.split()[1]) for line in lines if line.startswith(f"{cache} ")), 0)
        return limit, used - reclaimable
    return None, None


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"
