"""The report of an exported ONNX model as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.text import size_text

if TYPE_CHECKING:
    from jumar.export import OnnxReport


def onnx_lines(report: OnnxReport) -> list[str]:
    """Return the lines that tell what was written, the headline first."""
    lines = [f"Wrote {report.output}: {size_text(report.size_bytes)}, operator set {report.opset}."]
    if report.differences is None:
        return [*lines, "Not compared with PyTorch: ONNX Runtime is not installed (pip install 'jumar[export]')."]
    lines += [
        f"output {item.output} {item.shape}: greatest difference from PyTorch {item.greatest_absolute:.3g} "
        f"(relative {item.greatest_relative:.3g})"
        for item in report.differences
    ]
    return lines
