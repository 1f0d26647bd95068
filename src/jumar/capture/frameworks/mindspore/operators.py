"""Notes the operators that MindSpore dispatches: `operator_watch`."""

from __future__ import annotations

import sys
from typing import Any

from jumar.capture.frameworks.mindspore.cells import CellWatch
from jumar.capture.frameworks.mindspore.names import plain_values
from jumar.capture.frameworks.mindspore.rounding import Call
from jumar.capture.frameworks.notebook import Draft, Named, Notebook
from jumar.capture.notes.lines import UserLines
from jumar.capture.notes.nested import named_values
from jumar.operators.names import MINDSPORE
from jumar.recording import Phase

NOT_SEEN = (
    "backward and optimizer operators that MindSpore does not hand to MsDispatchMode (LayerNormGrad, BiasAddGrad, "
    "StridedSliceGrad and others); gradients of cells and parameters are recorded"
)
UNAVAILABLE = "operators: this MindSpore has no MsDispatchMode (2.10 has it)"
_NO_OPERATORS = frozenset({"typeof", "DType", "Shape", "TensorShape"})
"""What MindSpore dispatches although nothing is computed."""


def operator_watch(notebook: Notebook, cells: CellWatch, lines: UserLines, run: Call, *, notes: bool) -> Any:
    """Return a context in which every operator that is dispatched is called through `run`, and with `notes` becomes a
    row; None where MindSpore has no such context."""
    import mindspore
    from mindspore import Tensor, ops

    mode = getattr(getattr(mindspore, "utils", None), "MsDispatchMode", None)
    if mode is None:
        return None

    class _Watch(mode):  # type: ignore[misc, valid-type]
        is_on = notes
        _is_inside = False

        def _run(self, func: Any, args: tuple[Any, ...]) -> Any:
            self._is_inside = True
            try:
                return run(func, args)
            finally:
                self._is_inside = False

        def __ms_dispatch__(self, func: Any, args: tuple[Any, ...], kwargs: Any = None) -> Any:
            if self._is_inside:  # a cast of the rounding
                return func(*args)
            if not (notebook.is_open and self.is_on) or func.name in _NO_OPERATORS:
                return self._run(func, args)
            noted: tuple[Draft, Named] | None = None
            with notebook.own_work():
                # NOTE: an older primitive comes as (primitive, name, arguments), a newer one as its arguments alone
                is_old = bool(args) and isinstance(args[0], ops.Primitive)
                given = args[2] if is_old else args
                top = cells.top
                phase = _phase(cells)
                path, kind = (top.path, top.type_name) if top is not None and phase == "forward" else ("", "")
                draft = notebook.draft("op", phase, path, kind, f"{MINDSPORE}{func.name}")
                draft.source = lines.find(sys._getframe(1))
                draft.arguments = _arguments(args[0] if is_old else None, given, Tensor)
                inputs = list(named_values("input", given, Tensor))
                notebook.see(draft, inputs)
                noted = draft, inputs
            if noted is None:
                return self._run(func, args)
            draft, inputs = noted
            draft.start_us = notebook.now_us()
            result = self._run(func, args)
            draft.duration_us = notebook.now_us() - draft.start_us
            with notebook.own_work():
                whole = result if isinstance(result, (tuple, list)) else (result,)
                outputs = list(named_values("output", whole, Tensor))
                notebook.describer.was_made([one for _, one in outputs], [one for _, one in inputs])
                notebook.see(draft, outputs, outputs=True)
                notebook.finish(draft)
            return result

    return _Watch()


def _phase(cells: CellWatch) -> Phase:
    """Return the phase of an operator: after the backward pass, outside of the model, it works on gradients."""
    if cells.in_backward:
        return "backward"
    return "optimizer" if cells.has_gradients and cells.top is None else "forward"


def _arguments(primitive: Any, given: Any, tensor: type) -> dict[str, Any]:
    """Return what is not a tensor: the settings of a primitive, and plain values by their place."""
    settings = plain_values(getattr(primitive, "init_attrs", None) or {}) if primitive is not None else {}
    places = given if isinstance(given, (tuple, list)) else ()
    return settings | plain_values(
        {str(place): value for place, value in enumerate(places) if not isinstance(value, tensor)}
    )
