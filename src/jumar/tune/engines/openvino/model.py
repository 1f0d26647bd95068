"""A compiled model of OpenVINO as a function of tensors, whose memory it reads and writes without a copy.

OpenVINO's package as Jumar imports it: nothing is told to anybody.

At its import the package reports that it was imported to a server of its makers, from a thread that starts a process
(openvino-telemetry 2025.2). It does without where the reporting package is missing, so that is what it finds here. A
program that imported OpenVINO itself before is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch

from jumar.tune.engines.onnx.model import LARGEST_MODEL_BYTES, name_of, size_bytes, to_onnx, whole
from jumar.tune.engines.shared.borders import Inside
from jumar.tune.engines.shared.sessions import Port, at_home, num_forks, one_a_call, run_through
from jumar.tune.graph import Graph, Reference
from jumar.tune.model.errors import TuneError

_REPORTING = "openvino_telemetry"


def package() -> Any:
    """Return the package `openvino`. Raises ImportError when it is not installed."""
    is_new = "openvino" not in sys.modules and _REPORTING not in sys.modules
    if is_new:
        sys.modules[_REPORTING] = cast(ModuleType, None)  # what `import` takes for a module that is not there
    try:
        import openvino
    finally:
        if is_new:
            del sys.modules[_REPORTING]
    return openvino


openvino = package()
COMPILED = "openvino.blob"
STAGED_BYTES = 1 << 15
"""Tensors up to this size are copied through memory that is set once: setting a tensor costs 8 us (measured), a copy
of this size 2 us."""
HALF = {torch.bfloat16: "bf16", torch.float16: "f16"}


def core() -> Any:
    """Return this process's OpenVINO: that of the process it was forked from waits for threads that stayed there."""
    return _core(num_forks())


@cache
def _core(_num_forks: int) -> Any:  # none is given up: its end, too, would wait for its threads
    return openvino.Core()


def compiled(
    graph: Graph, constants: Mapping[Reference, torch.Tensor], folder: Path, config: Mapping[str, Any]
) -> None:
    """Compile a graph into `folder`. Raises TuneError for what cannot be written or compiled."""
    written = to_onnx(graph, constants)
    if size_bytes(written) > LARGEST_MODEL_BYTES:
        raise TuneError(
            f"the graph's weights take {size_bytes(written):,} bytes and must stay below "
            f"{LARGEST_MODEL_BYTES:,} in one OpenVINO model; cut it into parts."
        )
    try:
        model = core().compile_model(core().read_model(whole(written)), "CPU", dict(config))
        blob = model.export_model()
    except RuntimeError as error:
        raise TuneError(f"OpenVINO does not take the graph: {first_line(error)}.") from error
    (folder / COMPILED).write_bytes(blob if isinstance(blob, bytes) else blob.getvalue())


def imported(folder: Path, graph: Graph, config: Mapping[str, Any]) -> Inside:
    """Return the function of the compiled model in `folder`. Raises TuneError when it is missing or foreign."""
    path = folder / COMPILED
    if not path.is_file():
        raise TuneError(f"{path} is missing, so that nothing can be loaded; tune again.")
    try:
        model = core().import_model(path.read_bytes(), "CPU", dict(config))
    except RuntimeError as error:
        raise TuneError(f"OpenVINO does not import {path}: {first_line(error)}; tune again.") from error
    return at_home(one_a_call(_Request(model, graph), lambda: _Request(model, graph)), "OpenVINO")


class _Request:
    """One infer request; small tensors go through memory that is set once."""

    def __init__(self, model: Any, graph: Graph) -> None:
        self._request = model.create_infer_request()
        numbers = {given.get_any_name(): number for number, given in enumerate(model.inputs)}
        outputs = [spec for value in graph.outputs if value is not None and (spec := graph.spec_of(value)) is not None]
        self._inputs = [
            None
            if (number := numbers.get(name_of(place))) is None
            else _Port(number, spec.shape, getattr(torch, spec.dtype), self._request.set_input_tensor)
            for place, spec in ((place, graph.inputs[place]) for place in graph.variables)
        ]
        self._outputs = [
            _Port(place, spec.shape, getattr(torch, spec.dtype), self._request.set_output_tensor)
            for place, spec in enumerate(outputs)
        ]

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        return run_through(self._inputs, self._outputs, self._infer, inputs)

    def _infer(self) -> None:
        # Not `infer`: it looks at its arguments in Python first, 10 us a call (measured).
        self._request.start_async()
        self._request.wait()


class _Port(Port):
    def __init__(self, place: int, shape: tuple[int, ...], dtype: torch.dtype, setter: Any) -> None:
        super().__init__(shape, dtype, STAGED_BYTES)
        self._place, self._set = place, setter
        if self.staged is not None:
            self.bind(self.staged)

    def bind(self, tensor: torch.Tensor) -> None:
        self._set(self._place, shared(tensor))


def shared(tensor: torch.Tensor) -> Any:
    """Return an OpenVINO tensor in the memory of a contiguous PyTorch tensor."""
    tensor = tensor.detach()
    if tensor.dtype in HALF:  # NumPy has no bfloat16: the bits go as integers
        array: np.ndarray[Any, Any] = tensor.view(torch.int16).numpy()
        return openvino.Tensor(array, openvino.Shape(list(tensor.shape)), getattr(openvino.Type, HALF[tensor.dtype]))
    return openvino.Tensor(tensor.numpy(), True)


def first_line(error: Exception) -> str:
    """Return what matters of OpenVINO's many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Exception from", "Check "))]
    return (told or lines or [type(error).__name__])[0][:300].rstrip(".")
