"""`torch.npu.memory_summary`: the allocator's statistics as the table that torch_npu prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_WIDTH = 75
_COLUMNS = ("current", "peak", "allocated", "freed")
_TITLES = ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")


def _size(value: int, scale: int) -> str:
    """Return bytes in the unit that suits `scale`, the value of the row for all pools."""
    return _scaled(value, scale, ("B ", "KB", "MB", "GB", "TB", "PB"), 1024, 768 * 1024)


def _count(value: int, scale: int) -> str:
    return _scaled(value, scale, (" ", "K", "M"), 1000, 750 * 1000) + " "


def _scaled(value: int, scale: int, units: tuple[str, ...], step: int, limit: int) -> str:
    rest, unit = float(scale), units[0]
    for larger in units[1:]:
        if rest < limit:
            break
        unit, value, rest = larger, value // step, rest / step
    return f"{value:7d} {unit}"


Row = tuple[str, str, Callable[[int, int], str]]

_METRICS: tuple[Row, ...] = (
    ("allocated_bytes", "Allocated memory", _size),
    ("active_bytes", "Active memory", _size),
    ("reserved_bytes", "NPU reserved memory", _size),
    ("inactive_split_bytes", "Non-releasable memory", _size),
    ("allocation", "Allocations", _count),
    ("active", "Active allocs", _count),
    ("segment", "NPU reserved segments", _count),
    ("inactive_split", "Non-releasable allocs", _count),
)
_OVERSIZE: tuple[Row, ...] = (
    ("oversize_allocations", "Oversize allocations", _count),
    ("oversize_segments", "Oversize NPU segments", _count),
)


def summary(index: int, stats: Mapping[str, int], abbreviated: bool) -> str:
    """Return the table of one device. `stats` are those of `memory_stats`; abbreviated: without the two pools."""
    double, single = "=" * _WIDTH, "-" * _WIDTH
    lines = [
        double,
        f" {'':16} PyTorch NPU memory summary, device ID {index:<18d} ",
        single,
        f"  {'':9} NPU OOMs: {stats['num_ooms']:<13d} | {'':6} npuMalloc retries: {stats['num_alloc_retries']:<9d}  ",
        double,
        "        Metric         | " + " | ".join(f"{title:<10}" for title in _TITLES) + " ",
    ]
    pools = [("all", "")]
    if not abbreviated:
        pools += [("large_pool", "      from large pool"), ("small_pool", "      from small pool")]
    for metric, title, form in _METRICS:
        lines.append(single)
        scales = [stats[f"{metric}.all.{column}"] for column in _COLUMNS]
        for pool, name in pools:
            values = [stats[f"{metric}.{pool}.{column}"] for column in _COLUMNS]
            lines.append(_row(name or title, [form(*pair) for pair in zip(values, scales, strict=True)]))
    for metric, title, form in _OVERSIZE:
        values = [stats[f"{metric}.{column}"] for column in _COLUMNS]
        lines += [single, _row(title, [form(value, value) for value in values])]
    lines.append(double)
    return "".join(f"|{line}|\n" for line in lines)


def _row(title: str, cells: list[str]) -> str:
    return f" {title:<21} | " + " | ".join(cells) + " "
