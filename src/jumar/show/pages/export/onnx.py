"""The report of an exported ONNX model as lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.base.text import counted, listing, size_text

if TYPE_CHECKING:
    from jumar.export import OnnxReport
    from jumar.export.onnx.compare import Check, Difference


def onnx_lines(report: OnnxReport) -> list[str]:
    """Return the lines that tell what was written, the headline first."""
    beside = f" and {report.data.name}" if report.data is not None else ""
    return [
        f"Wrote {report.output}{beside}: {size_text(report.size_bytes)}, operator set {report.opset}.",
        f"exporter: {report.exporter}, because {report.exporter_reason}",
        *_weights(report),
        f"inputs: {', '.join(_open(report, name) for name in report.inputs)}",
        f"outputs: {', '.join(report.outputs)}",
        *_compared(report),
        *_atc(report),
    ]


def _open(report: OnnxReport, name: str) -> str:
    axes = sorted(report.open_axes.get(name, {}).items())
    shown = ", ".join(f"axis {axis} open as {label}" for axis, label in axes)
    return f"{name} ({shown})" if axes else name


def _weights(report: OnnxReport) -> Iterator[str]:
    loaded = report.weights
    if loaded is None:
        return
    where = f" under {loaded.found_under}" if loaded.found_under else ""
    yield f"weights: {counted(loaded.num_loaded, 'tensor')} of {loaded.path}{where}"
    for prefix, number in loaded.num_by_prefix.items():
        yield f"prefix {prefix} taken from {counted(number, 'key')}"
    if loaded.missing:
        yield f"not in the checkpoint, so the factory's: {listing(loaded.missing, 12)}"
    if loaded.unexpected:
        yield f"in the checkpoint and not in the model: {listing(loaded.unexpected, 12)}"


def _compared(report: OnnxReport) -> Iterator[str]:
    if report.differences is None:
        yield f"not compared with PyTorch: {report.not_compared}"
        return
    for item in report.differences:
        yield f"{_difference(item)} (example inputs)"
    for check in report.other_sizes:
        yield from _other(check)
    for line in report.not_tried:
        yield f"not tried with another size: {line}"


def _other(check: Check) -> Iterator[str]:
    sizes = ", ".join(f"{name}={size}" for name, size in check.sizes.items())
    if check.differences is None:
        yield f"{sizes}: not compared, {check.reason}"
        return
    greatest = max((item.greatest_absolute for item in check.differences), default=0.0)
    num = sum(bool(item.num_beyond) for item in check.differences)
    verdict = f"{num} beyond the tolerance" if num else "all within the tolerance"
    compared = counted(len(check.differences), "output")
    yield f"{sizes}: {compared} compared, {verdict}, greatest difference {greatest:.3g}"


def _difference(item: Difference) -> str:
    return (
        f"output {item.output} {item.name} {item.shape}: greatest difference from PyTorch {item.greatest_absolute:.3g} "
        f"(relative {item.greatest_relative:.3g})"
    )


def _atc(report: OnnxReport) -> Iterator[str]:
    from jumar.export.onnx.atc import table

    atc = report.atc
    num = len(atc.taken) + len(atc.not_taken) + len(atc.unknown)
    yield (
        f"ATC, by the registrations of {table().date}: takes {len(atc.taken)} of {counted(num, 'operator type')} at "
        f"the operator set {atc.opset}, does not take {len(atc.not_taken)}, not known {len(atc.unknown)}; "
        "ATC was not run"
    )
