"""The two exporters of PyTorch: `by_dynamo` (torch.export) and `by_tracing` (TorchScript)."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from jumar.export.onnx.axes import Axes, widened
from jumar.export.onnx.exporters.plain import plain_operators
from jumar.export.onnx.factory import Built

LOGGERS = (
    "torch.onnx", "torch.onnx._internal.exporter._registration", "torch.onnx._internal.exporter._compat",
    "onnxscript", "onnx_ir", "torch.export", "torch._export", "torch.fx.experimental.symbolic_shapes", "torch._dynamo",
)  # fmt: skip
_OPERATOR = re.compile(r"aten[:.]{1,2}\w+(?:\.\w+)?|op='(aten\.[\w.]+)'")
_PLACE = re.compile(r'The following call raised this error:\s+File "([^"]+)", line (\d+)')
_DATA = re.compile(r"data.dependent|DataDependent|_local_scalar_dense", re.IGNORECASE)


@dataclass(kw_only=True, eq=False)
class Refused(Exception):
    """An exporter does not give the model."""

    reason: str
    """One line."""
    operator: str = ""
    on_data: bool = False
    """Whether the model's path depends on the values of tensors, so that no trace is the model."""
    place: str = ""
    """Where in the model's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A model file as an exporter left it."""

    path: Path
    opset: int
    traced_values: tuple[str, ...] = ()
    """Places where tracing turned a tensor's value into a constant, `FILE:LINE`."""


def by_dynamo(built: Built, opset: int | None, axes: Axes, outputs: Sequence[str], path: Path, large: bool) -> Exported:
    """Write the model with torch.export's exporter; with its weights in a file beside it where `large`.

    The operator set may be another one than asked for. Raises Refused.
    """
    tensors = widened(built, axes)
    shapes = {name: dict.fromkeys(axes.get(name, {}), torch.export.Dim.AUTO) or None for name in built.names}
    try:
        with quiet(), _only_true_capture(), built.flat() as model:
            program = torch.onnx.export(
                model, tuple(tensors), dynamo=True, opset_version=opset, verbose=False,
                dynamic_shapes=shapes if axes else None, input_names=list(built.names),
                output_names=list(outputs) or None,
            )  # fmt: skip
            assert program is not None
            program.save(str(path), include_initializers=True, external_data=large)
    except Exception as error:  # what is raised depends on where in PyTorch the model stops
        raise refusal(error) from error
    return Exported(path=path, opset=int(program.model.opset_imports[""]))


def by_tracing(built: Built, opset: int | None, axes: Axes, outputs: Sequence[str], path: Path) -> Exported:
    """Write the model with the TorchScript exporter. Raises Refused."""
    open_axes = {name: dict(own) for name, own in axes.items()}
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            quiet(keep_warnings=True),
            plain_operators(),
            built.flat() as own,
        ):
            warnings.simplefilter("always")
            torch.onnx.export(
                own, tuple(built.tensors), str(path), dynamo=False, opset_version=opset,
                input_names=list(built.names), output_names=list(outputs) or None, dynamic_axes=open_axes or None,
            )  # fmt: skip
    except Exception as error:
        raise refusal(error) from error
    made = importlib.import_module("onnx").load(str(path), load_external_data=False)
    return Exported(
        path=path,
        opset=next((item.version for item in made.opset_import if item.domain == ""), 0),
        traced_values=tuple(dict.fromkeys(f"{item.filename}:{item.lineno}" for item in caught if _is_traced(item))),
    )


def natively(opset: int | None) -> bool:
    """Whether torch.export's exporter writes an operator set itself, and not by converting the file."""
    try:
        constants = importlib.import_module("torch.onnx._internal.exporter._constants")
    except ImportError:
        return opset is None
    return opset is None or opset >= int(getattr(constants, "TORCHLIB_OPSET", 18))


def refusal(error: BaseException) -> Refused:
    """Return what an exception of an exporter says, in one line: the exporters wrap it in pages of advice."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    text = "\n".join(f"{type(item).__name__}: {item}" for item in chain)
    on_data = _DATA.search(text)
    operator = next(iter(_OPERATOR.finditer(text)), None)
    place = _PLACE.search(text)
    first = next((line.strip() for line in str(chain[-1]).splitlines() if line.strip()), type(chain[-1]).__name__)
    return Refused(
        reason=first[:200].rstrip("."),
        operator=(operator[1] or operator[0]).replace("aten.", "aten::", 1) if operator else "",
        on_data=on_data is not None,
        place=f"{place[1]}:{place[2]}" if place else "",
    )


def _is_traced(item: warnings.WarningMessage) -> bool:
    return item.category.__name__ == "TracerWarning"


@contextlib.contextmanager
def _only_true_capture() -> Iterator[None]:
    """Keep torch.onnx from falling back to a trace, which some versions do and which hides branches on values."""
    try:
        module = importlib.import_module("torch.onnx._internal.exporter._capture_strategies")
    except ImportError:
        yield
        return
    known = getattr(module, "CAPTURE_STRATEGIES", None)
    if known is None:
        yield
        return
    module.CAPTURE_STRATEGIES = tuple(one for one in known if not re.search("Jit|Draft", one.__name__))  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.CAPTURE_STRATEGIES = known  # type: ignore[attr-defined]


@contextlib.contextmanager
def quiet(*, keep_warnings: bool = False) -> Iterator[None]:
    """Keep what the exporters log and print off the terminal: graphs, conversions that are tried, deprecations."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    log = getattr(torch._C, "_jit_onnx_log", None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        if not keep_warnings:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        if log is not None:  # it prints the whole graph where an operator is missing
            torch._C._jit_onnx_log = lambda *_: None
        try:
            yield
        finally:
            if log is not None:
                torch._C._jit_onnx_log = log
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)
