"""A session of ONNX Runtime as a function of tensors, whose memory it reads and writes without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime
import torch

from jumar.tune.engines.base import Site
from jumar.tune.engines.onnx.draft import DTYPES
from jumar.tune.engines.onnx.model import BORROWED, MODEL, borrowed, name_of
from jumar.tune.engines.shared.borders import Inside
from jumar.tune.engines.shared.sessions import Port, one_a_call, run_through
from jumar.tune.graph import Graph, Reference
from jumar.tune.model.errors import TuneError

LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
STAGED_BYTES = 1 << 14
"""Tensors up to this size are copied through memory that is bound once: naming memory to ONNX Runtime costs 5 us a
tensor (measured), a copy of this size 1 us."""


def opened(
    site: Site, constants: Mapping[Reference, torch.Tensor], settings: Mapping[str, Any], graph: Graph
) -> Inside:
    """Return the function of the model in the site's folder. Raises TuneError when it is missing or refused."""
    path = site.folder / MODEL
    if not path.is_file():
        raise TuneError(f"{path} is missing, so that nothing can be loaded; tune again.")
    weights = borrowed(site.folder, constants)
    options = _options(site.num_threads, settings)
    values = [_value(tensor) for tensor in weights.values()]
    if values:
        options.add_external_initializers(list(weights), values)
        (site.folder / BORROWED).touch()  # it is looked for, and not read
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the classes of ONNX Runtime's errors have no base but Exception
        raise TuneError(f"ONNX Runtime does not take the graph: {_first_line(error)}.") from error
    # The weights' memory must outlive the session that borrows it.
    keep = weights, values
    return one_a_call(_Bound(session, graph, keep=keep), lambda: _Bound(session, graph, keep=keep))


def _options(num_threads: int, settings: Mapping[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    level = LEVELS[str(settings.get("optimization", "all"))]
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.enable_mem_pattern = bool(settings.get("memory_pattern", True))
    if not settings.get("spinning", True):
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class _Bound:
    """Binds inputs and fresh outputs to the session in each call."""

    def __init__(self, session: Any, graph: Graph, keep: Any) -> None:
        self._session, self._keep = session, keep
        self._binding = session.io_binding()
        taken = {given.name for given in session.get_inputs()}
        self._inputs = [
            _Port(name, spec.shape, getattr(torch, spec.dtype), self._binding.bind_input) if name in taken else None
            for name, spec in ((name_of(place), graph.inputs[place]) for place in graph.variables)
        ]
        given = [graph.spec_of(value) for value in graph.outputs if value is not None]
        self._outputs = [
            _Port(name.name, spec.shape, getattr(torch, spec.dtype), self._binding.bind_output)
            for name, spec in zip(session.get_outputs(), given, strict=True)
            if spec is not None
        ]
        self._run = session.run_with_iobinding

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        return run_through(self._inputs, self._outputs, lambda: self._run(self._binding), inputs)


class _Port(Port):
    def __init__(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, bind: Any) -> None:
        super().__init__(shape, dtype, STAGED_BYTES)
        self._name, self._bind, self._kind = name, bind, DTYPES[dtype]
        if self.staged is not None:
            self.bind(self.staged)

    def bind(self, tensor: torch.Tensor) -> None:
        self._bind(self._name, "cpu", 0, self._kind, self._shape, tensor.data_ptr())


def _value(tensor: torch.Tensor) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.detach().numpy())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300].rstrip(".") if str(error).strip() else type(error).__name__
