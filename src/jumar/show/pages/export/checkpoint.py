"""The report of an exported checkpoint as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.text import counted, size_text

if TYPE_CHECKING:
    from jumar.export import CheckpointReport


def checkpoint_lines(report: CheckpointReport) -> list[str]:
    """Return the lines that tell what was written, the headline first."""
    dtypes = ", ".join(f"{number} {name}" for name, number in report.num_by_dtype.items())
    lines = [
        f"Wrote {report.output}: {counted(report.num_tensors, 'tensor')}, "
        f"{counted(report.num_values, 'value')}, {size_text(report.size_bytes)}; "
        "read back and equal bit by bit (SHA-256).",
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
    if report.state_kept:
        where = f" in {report.state_file}" if report.state_file else ""
        lines.append(f"kept with the weights{where}: {', '.join(report.state_kept)}")
    if report.state_reason:
        lines.append(f"not kept: {report.state_reason}")
    if report.left_behind:
        lines.append(f"left behind: {', '.join(report.left_behind)}")
    return lines
