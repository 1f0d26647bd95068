"""`export_onnx`: write a model as an ONNX file and compare it with PyTorch in ONNX Runtime.

Needs the packages of the extra `export` (onnx, onnxscript; onnxruntime for the check).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.base.errors import InputError, UsageError
from jumar.base.files import check_output, explained, write_atomically
from jumar.base.findings import Finding, Location
from jumar.export.options import OnnxOptions
from jumar.export.rules import ONNX_DIFFERS

NEEDED = ("onnx", "onnxscript")
CHECKER = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far one output of the ONNX model is from PyTorch's."""

    output: int
    greatest_absolute: float
    greatest_relative: float
    num_beyond: int
    """Elements beyond the tolerance (NaN against NaN is none)."""
    shape: tuple[int, ...]
    reference_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxReport:
    """What was written and how it compares."""

    output: Path
    size_bytes: int
    opset: int
    differences: tuple[Difference, ...] | None
    """None when ONNX Runtime is not installed: the file was not checked by running it."""
    findings: tuple[Finding, ...]


def export_onnx(factory: str, output: Path, options: OnnxOptions | None = None) -> OnnxReport:
    """Export what `factory` (`module:callable`, giving `(model, example_inputs)`) returns to `output`.

    The weights are within the file. Raises InputError for a factory that cannot be used or exported and for
    missing packages, UsageError for an operator set that there is not, OutputError for a file that must not or cannot
    be written.
    """
    options = options or OnnxOptions()
    check_output(output, options.force)
    require_packages()
    check_opset(options.opset)
    model, inputs = build(factory)
    with torch.no_grad():
        reference = _outputs(model(*inputs))
    program = _export(model, inputs, options, factory)
    with explained(output, "choose a place you can write to"):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, lambda part: _save(program, part))
    differences = compare(output, inputs, reference, options)
    return OnnxReport(
        output=output,
        size_bytes=output.stat().st_size,
        opset=int(program.model.opset_imports[""]),
        differences=differences,
        findings=tuple(_findings(differences or (), options, output)),
    )


def require_packages() -> None:
    """Raise InputError when a package that the export needs is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"exporting to ONNX needs {' and '.join(missing)}; pip install 'jumar[export]'.")


def check_opset(opset: int | None) -> None:
    """Raise UsageError for a version of the operator set that the installed onnx does not know.

    The exporter writes any number into the file; no program can read a file with an unknown one.
    """
    if opset is None:
        return
    newest = int(importlib.import_module("onnx").defs.onnx_opset_version())
    if not 1 <= opset <= newest:
        raise UsageError(f"--opset must be from 1 to {newest}, the newest that onnx knows here; got {opset}.")


def build(factory: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Call `module:callable` (the current folder is on the path) and return the model, in eval mode on the CPU, and
    its example inputs. Raises InputError when it does not give these two.
    """
    name, _, attribute = factory.partition(":")
    if not name or not attribute:
        raise InputError(f'the factory must be module:callable; got "{factory}". Try models:build.')
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make = getattr(importlib.import_module(name), attribute)
    except ModuleNotFoundError as error:
        raise InputError(f"the factory's module {name} does not import ({error}); run in its folder.") from error
    except AttributeError as error:
        raise InputError(f"the module {name} has no {attribute!r}; name a callable of it.") from error
    made = make()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise InputError(f"{factory} must return (model, example_inputs); it returned a {type(made).__name__}.")
    inputs = made[1] if isinstance(made[1], tuple | list) else (made[1],)
    if not inputs or not all(isinstance(item, torch.Tensor) for item in inputs):
        raise InputError(f"the example inputs of {factory} must be tensors, one or a tuple of them.")
    return made[0].cpu().eval(), tuple(item.detach().cpu() for item in inputs)


def _export(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], options: OnnxOptions, factory: str
) -> torch.onnx.ONNXProgram:
    shapes = tuple({0: torch.export.Dim.AUTO} for _ in inputs) if options.dynamic_batch else None
    try:
        with _quiet():
            program = torch.onnx.export(
                model, inputs, dynamo=True, opset_version=options.opset, dynamic_shapes=shapes, verbose=False
            )
    except torch.onnx.OnnxExporterError as error:
        message = f"{factory} cannot be exported to ONNX ({_reason(error)}); simplify its forward."
        raise InputError(message) from error
    assert program is not None
    made = int(program.model.opset_imports[""])
    if options.opset not in {None, made}:
        raise InputError(
            f"{factory} cannot be exported with the operator set {options.opset}: PyTorch's exporter gives {made}. "
            f"Give --opset {made}, or leave it out."
        )
    return program


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch's own deprecation warnings and its note about a missing torchvision off the terminal."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _reason(error: BaseException) -> str:
    """Return the first line of the innermost cause: the exporter wraps it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line[:200]


def _save(program: torch.onnx.ONNXProgram, part: Path) -> None:
    program.save(str(part), include_initializers=True, external_data=False)
    importlib.import_module("onnx").checker.check_model(str(part))


def compare(
    file: Path, inputs: Sequence[torch.Tensor], reference: Sequence[np.ndarray], options: OnnxOptions
) -> tuple[Difference, ...] | None:
    """Run `file` in ONNX Runtime on `inputs` and return each output's difference, None without ONNX Runtime."""
    if importlib.util.find_spec(CHECKER) is None:
        return None
    session = _session(file)
    names = [item.name for item in session.get_inputs()]
    feed: Mapping[str, Any] = {name: item.numpy() for name, item in zip(names, inputs, strict=False)}
    results = session.run(None, feed)
    pairs = enumerate(zip(results, reference, strict=True))
    return tuple(_difference(index, np.asarray(output), expected, options) for index, (output, expected) in pairs)


def _session(file: Path) -> Any:
    try:
        return importlib.import_module(CHECKER).InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:  # the classes of ONNX Runtime's errors have no base but Exception
        raise InputError(
            f"{file} was written, and ONNX Runtime does not take it ({_reason(error)}); ask for an older --opset."
        ) from error


def _difference(index: int, result: np.ndarray, reference: np.ndarray, options: OnnxOptions) -> Difference:
    if result.shape != reference.shape:
        return Difference(
            output=index,
            greatest_absolute=float("nan"),
            greatest_relative=float("nan"),
            num_beyond=reference.size,
            shape=result.shape,
            reference_shape=reference.shape,
        )
    computed, expected = result.astype(np.float64), reference.astype(np.float64)
    same = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(same, 0.0, np.abs(computed - expected))
        relative = np.where(same, 0.0, gap / np.abs(expected))
        within = gap <= options.absolute_tolerance + options.relative_tolerance * np.abs(expected)
    return Difference(
        output=index,
        greatest_absolute=float(gap.max(initial=0.0)),
        greatest_relative=float(relative.max(initial=0.0)),
        num_beyond=int((~(same | within)).sum()),
        shape=result.shape,
        reference_shape=reference.shape,
    )


def _outputs(result: Any) -> list[np.ndarray]:
    """Return the tensors in a model's output, in order, as the exporter flattens them."""
    flat, _ = torch.utils._pytree.tree_flatten(result)
    return [item.detach().cpu().numpy() for item in flat if isinstance(item, torch.Tensor)]


def _findings(differences: Sequence[Difference], options: OnnxOptions, output: Path) -> list[Finding]:
    tolerance = f"{options.absolute_tolerance:g} + {options.relative_tolerance:g} · |reference|"
    return [
        ONNX_DIFFERS.finding(
            f"Output {item.output} of the ONNX model {_how(item)} (tolerance {tolerance}).",
            where=Location(path=str(output)),
            evidence={
                "output": item.output,
                "greatest_absolute": item.greatest_absolute,
                "num_beyond": item.num_beyond,
                "shape": list(item.shape),
                "reference_shape": list(item.reference_shape),
            },
            why="The file runs, and it computes other values than the model.",
            action="Look for branches on tensor values and for constants taken from the example inputs.",
        )
        for item in differences
        if item.num_beyond
    ]


def _how(item: Difference) -> str:
    if item.shape != item.reference_shape:
        return f"has the shape {item.shape} where PyTorch's has {item.reference_shape}"
    return f"differs in {item.num_beyond:,} elements by up to {item.greatest_absolute:.4g}"
