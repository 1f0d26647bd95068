"""Exports in the terminal: what was written, and what the check of it found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jumar.base.text import counted, size_text

if TYPE_CHECKING:
    from jumar.export import CheckpointReport, OnnxReport


def print_export(report: CheckpointReport | OnnxReport) -> None:
    """Print what was written, then the findings."""
    from jumar.export import CheckpointReport
    from jumar.show import print_findings

    lines = _checkpoint_lines(report) if isinstance(report, CheckpointReport) else _onnx_lines(report)
    click.secho(lines[0], bold=True)
    for line in lines[1:]:
        click.echo(f"  {line}")
    if report.findings:
        print_findings(report.findings)


def _checkpoint_lines(report: CheckpointReport) -> list[str]:
    dtypes = ", ".join(f"{number} {name}" for name, number in report.num_by_dtype.items())
    lines = [
        f"Wrote {report.output}: {counted(report.num_tensors, 'tensor')}, "
        f"{counted(report.num_values, 'value')}, {size_text(report.size_bytes)}; read back and equal bit by bit.",
        f"dtypes: {dtypes}; on the CPU",
        f"weights found under: {report.found_under or 'the whole file'}",
    ]
    lines += [
        f"prefix {prefix} taken from {number} of {report.num_tensors} keys"
        for prefix, number in report.num_by_prefix.items()
    ]
    if report.num_renamed:
        lines.append(f"{report.num_renamed} of {report.num_tensors} keys got the other framework's names")
    if report.left_out:
        lines.append(f"left out, without a counterpart there: {', '.join(report.left_out)}")
    if report.undecided:
        names = ", ".join(report.undecided)
        lines.append(f"kept, because the file does not name the module's class: {names} (--embedding PATTERN)")
    if report.others:
        lines.append(f"other weights in the file, not taken: {', '.join(report.others)} (--only KEY)")
    if report.left_behind:
        lines.append(f"left behind: {', '.join(report.left_behind)}")
    return lines


def _onnx_lines(report: OnnxReport) -> list[str]:
    lines = [f"Wrote {report.output}: {size_text(report.size_bytes)}, operator set {report.opset}."]
    if report.differences is None:
        return [*lines, "Not compared with PyTorch: ONNX Runtime is not installed (pip install 'jumar[export]')."]
    lines += [
        f"output {item.output} {item.shape}: greatest difference from PyTorch {item.greatest_absolute:.3g} "
        f"(relative {item.greatest_relative:.3g})"
        for item in report.differences
    ]
    return lines
