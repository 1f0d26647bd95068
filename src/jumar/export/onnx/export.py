"""`export_onnx`: write a model as an ONNX file and compare it with PyTorch in ONNX Runtime.

Needs the packages of the extra `export` (onnx, onnxscript; onnxruntime for the check).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from jumar.base.errors import InputError, UsageError
from jumar.base.files import check_output
from jumar.base.text import listing
from jumar.export.onnx.atc import judge
from jumar.export.onnx.axes import Axes, Trial, open_axes, sizes_of, trials
from jumar.export.onnx.compare import Check, Runner, compare
from jumar.export.onnx.exporters.choose import Chosen, choose
from jumar.export.onnx.factory import Built, build, renamed
from jumar.export.onnx.files import check, data_file, fixed_axes, load_graph, name_axes, place, workplace
from jumar.export.onnx.options import OnnxOptions
from jumar.export.onnx.report import OnnxReport, findings
from jumar.export.onnx.weights import load_weights

NEEDED = ("onnx", "onnxscript")


def export_onnx(factory: str, output: Path, options: OnnxOptions | None = None) -> OnnxReport:
    """Export what `factory` (`module:callable`, giving `(model, example_inputs)`) returns to `output`.

    Raises InputError for a factory or checkpoint that cannot be used, a model that cannot be exported, and for missing
    packages; UsageError for an operator set, input or axis that there is not; OutputError for a file that must not or
    cannot be written.
    """
    options = options or OnnxOptions()
    check_output(output, options.force)
    require_packages()
    check_opset(options.opset)
    built = renamed(build(factory), options.input_names)
    loaded = load_weights(built.model, options)
    axes = open_axes(built, options)
    reference = _reference(built, factory)
    options = _with_outputs(options, len(reference))
    large = _weights_bytes(built.model) > options.one_file_bytes
    if large:
        check_output(data_file(output), options.force)
    with workplace(output) as folder:
        chosen = choose(built, axes, options, factory, folder / output.name, large)
        path = chosen.path
        _check_open(path, axes, factory, chosen)
        runs, not_tried = _other_runs(built, axes)
        name_axes(path, axes, _varying(reference, sizes_of(built, axes), runs))
        check(path)
        runner = Runner(path)
        first = _first_check(runner, built, reference, options)
        others = [compare(runner, built, trial.tensors, found, options, trial.sizes) for trial, found in runs]
        others = others if first.differences is not None else []
        graph = load_graph(path)
        size_bytes = sum(file.stat().st_size for file in (path, data_file(path)) if file.exists())
        has_data = data_file(path).exists()
        place(path, output, options.force)
    judgement = judge(graph)
    return OnnxReport(
        output=output, data=data_file(output) if has_data else None, size_bytes=size_bytes, opset=judgement.opset,
        exporter=chosen.exporter, exporter_reason=chosen.reason,
        inputs=tuple(item.name for item in graph.graph.input), outputs=tuple(item.name for item in graph.graph.output),
        open_axes=axes, weights=loaded, differences=first.differences, not_compared=first.reason,
        other_sizes=tuple(others), not_tried=tuple(not_tried), atc=judgement,
        findings=tuple(findings([first, *others], chosen.traced_values, judgement, options, output)),
    )  # fmt: skip


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


def _reference(built: Built, factory: str) -> list[np.ndarray]:
    try:
        return built.run()
    except Exception as error:  # the user's model may raise anything
        line = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise InputError(f"the model of {factory} does not run on its example inputs ({line[:200]}).") from error


def _with_outputs(options: OnnxOptions, num_outputs: int) -> OnnxOptions:
    """Return the options with a name for each output. Raises UsageError for another number of names."""
    names = options.output_names
    if not names:
        names = ("output",) if num_outputs == 1 else tuple(f"output_{index}" for index in range(num_outputs))
    if len(names) != num_outputs:
        raise UsageError(f"--output-names must name the {num_outputs} outputs of the model; got {len(names)}.")
    return replace(options, output_names=names)


def _weights_bytes(model: torch.nn.Module) -> int:
    tensors = {id(item): item for item in (*model.parameters(), *model.buffers())}
    return sum(item.numel() * item.element_size() for item in tensors.values())


def _check_open(path: Path, axes: Axes, factory: str, chosen: Chosen) -> None:
    """Raise InputError when an axis that should be open has a fixed size in the file."""
    fixed = fixed_axes(load_graph(path).graph, axes)
    if fixed:
        shown = listing([f"{name}:{axis} (always {size})" for name, axis, size in fixed], 6)
        raise InputError(
            f"{factory} does not leave open what was asked for: {shown}; its forward fixes the size, so leave the axis "
            f"out of --dynamic, or read the size from the tensor ({chosen.exporter})."
        )


def _other_runs(built: Built, axes: Axes) -> tuple[list[tuple[Trial, list[np.ndarray]]], list[str]]:
    """Return PyTorch's outputs for other sizes, and the axes for which PyTorch takes none."""
    runs, refused = [], []
    for group in trials(built, axes):
        reason = ""
        for trial in group:
            try:
                runs.append((trial, built.run(trial.tensors)))
                break
            except Exception as error:  # noqa: BLE001 - the model may refuse a size as it likes
                reason = reason or (str(error).splitlines() or [type(error).__name__])[0][:120]
        else:
            changed = [name for name, size in sizes_of(built, axes).items() if group[0].sizes[name] != size]
            refused.append(f"{', '.join(changed)}: PyTorch takes none of the sizes that were tried ({reason})")
    covered = {name for trial, _ in runs for name, size in sizes_of(built, axes).items() if trial.sizes[name] != size}
    return runs, [line for line in refused if not set(line.partition(":")[0].split(", ")) <= covered]


def _varying(
    reference: Sequence[np.ndarray], sizes: Mapping[str, int], runs: Sequence[tuple[Trial, list[np.ndarray]]]
) -> list[dict[int, str]]:
    """Return for each output its axes that changed with other sizes, under the name of the input's axis."""
    found: list[dict[int, str]] = [{} for _ in reference]
    for trial, results in runs:
        changed = [name for name, size in sizes.items() if trial.sizes[name] != size]
        for index, (one, other) in enumerate(zip(reference, results, strict=False)):
            for axis in [axis for axis in range(min(one.ndim, other.ndim)) if one.shape[axis] != other.shape[axis]]:
                is_same = len(changed) == 1 and other.shape[axis] == trial.sizes[changed[0]]
                found[index].setdefault(axis, changed[0] if is_same else f"output_{index}_{axis}")
    return found


def _first_check(runner: Runner, built: Built, reference: list[np.ndarray], options: OnnxOptions) -> Check:
    again = built.run()
    pairs = zip(reference, again, strict=False)
    if len(again) != len(reference) or not all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in pairs):
        reason = "the model gives other values in each run, so that there is nothing to compare with"
        return Check(sizes={}, differences=None, reason=reason)
    return compare(runner, built, built.tensors, reference, options, {})
