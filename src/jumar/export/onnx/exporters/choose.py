"""`choose`: the exporter that gives a model at an operator set, and why it is that one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import InputError
from jumar.export.onnx.axes import Axes
from jumar.export.onnx.compare import Runner, compare
from jumar.export.onnx.exporters.both import Exported, Refused, by_dynamo, by_tracing, natively
from jumar.export.onnx.factory import Built
from jumar.export.onnx.files import check, data_file, fixed_axes, gather_weights, load_graph
from jumar.export.onnx.options import OnnxOptions

DYNAMO, TRACING = "torch.export", "TorchScript"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A file and where it is from."""

    path: Path
    exporter: str
    reason: str
    traced_values: tuple[str, ...]
    """Places whose values the trace fixed. Empty where torch.export took the model, too: then they are sizes."""


def choose(built: Built, axes: Axes, options: OnnxOptions, factory: str, path: Path, large: bool) -> Chosen:
    """Write the model to `path` with the exporter that gives the operator set asked for.

    That is torch.export's where it writes the set itself, or where the file that it converted passes onnx.checker and
    agrees with PyTorch in ONNX Runtime. Else it is the TorchScript exporter, for a model whose path does not depend on
    values. Raises InputError where neither gives it.
    """
    opset = options.opset
    try:
        made = by_dynamo(built, opset, axes, options.output_names, path, large)
    except Refused as refused:
        if refused.on_data:
            raise InputError(_on_data(factory, refused)) from refused
        return _traced(built, axes, options, factory, path, large, refused)
    doubt = _doubt(made, built, axes, options)
    if doubt:
        _clear(path)
        return _traced(built, axes, options, factory, path, large, Refused(reason=doubt), made)
    gather_weights(path, large)
    reason = (
        f"it writes the operator set {made.opset} itself"
        if natively(opset)
        else f"the file that it converted to the operator set {made.opset} agrees with PyTorch"
    )
    return Chosen(path=path, exporter=DYNAMO, reason=reason, traced_values=())


def _doubt(made: Exported, built: Built, axes: Axes, options: OnnxOptions) -> str:
    """Return why a file is not what was asked for; empty where it is."""
    if options.opset not in (None, made.opset):
        return f"torch.export's exporter leaves the operator set at {made.opset}"
    if fixed_axes(load_graph(made.path).graph, axes):
        return "torch.export's exporter fixes an axis that should stay open"
    if natively(options.opset):
        return ""
    try:
        check(made.path)
    except InputError:
        return "onnx.checker refuses the file that torch.export's exporter converted"
    found = compare(Runner(made.path), built, built.tensors, built.run(), options, {})
    return "" if found.agrees else "the file that torch.export's exporter converted is not shown to agree with PyTorch"


def _traced(
    built: Built, axes: Axes, options: OnnxOptions, factory: str, path: Path, large: bool,
    refused: Refused, captured: Exported | None = None,
) -> Chosen:  # fmt: skip
    try:
        made = by_tracing(built, options.opset, axes, options.output_names, path)
    except Refused as error:
        raise InputError(_neither(factory, options.opset, refused, error, captured)) from error
    gather_weights(path, large)
    return Chosen(
        path=path,
        exporter=TRACING,
        reason=refused.reason,
        traced_values=() if captured is not None else made.traced_values,
    )


def _clear(path: Path) -> None:
    for file in (path, data_file(path)):
        file.unlink(missing_ok=True)


def _on_data(factory: str, refused: Refused) -> str:
    at = f" at {refused.place}" if refused.place else ""
    what = f" ({refused.operator})" if refused.operator else ""
    return (
        f"{factory} cannot be exported to ONNX: its forward turns a tensor's value into a Python value{at}{what}, and "
        "goes on by it; use torch.where or torch.cond there."
    )


def _neither(
    factory: str, opset: int | None, refused: Refused, error: Refused, captured: Exported | None
) -> str:  # fmt: skip
    operator = error.operator or refused.operator
    what = f"{operator}: " if operator and operator not in error.reason else ""
    if opset is None:
        return f"{factory} cannot be exported to ONNX ({what}{refused.reason}); simplify its forward."
    other = (
        f"PyTorch's exporter gives {captured.opset}. Give --opset {captured.opset}, or leave it out."
        if captured is not None
        else f"torch.export's exporter has none ({refused.operator or refused.reason}); write it otherwise."
    )
    return f"{factory} cannot be exported with the operator set {opset} ({what}{error.reason}); {other}"
