"""Notes calls of cells, and the gradients of what they take and give: `CellWatch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from jumar.capture.frameworks.mindspore.names import CellNames
from jumar.capture.frameworks.notebook import Draft, Named, Notebook
from jumar.capture.notes.lines import UserLines
from jumar.capture.notes.nested import named_values
from jumar.recording import Phase


@dataclass(slots=True)
class Frame:
    """A cell that is being called."""

    cell: Any
    path: str
    type_name: str


class CellWatch:
    """Listens to `Cell.__call__`. With `notes_modules=False` cells only give operators their paths."""

    def __init__(self, notebook: Notebook, names: CellNames, lines: UserLines, *, notes_modules: bool) -> None:
        import mindspore

        self._tensor = mindspore.Tensor
        self._notebook, self._names, self._lines = notebook, names, lines
        self._notes_modules = notes_modules
        self.stack: list[Frame] = []
        self.in_backward = False
        self.has_gradients = False
        """Whether a backward pass of the step is over, and no cell has been called since."""
        self._pending: list[_Pending] = []

    @property
    def top(self) -> Frame | None:
        """The innermost cell."""
        return self.stack[-1] if self.stack else None

    def call(self, cell: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a cell, and note it."""
        notebook = self._notebook
        parent = self.top.path if self.top is not None else ""
        path: str | None = None
        with notebook.own_work():
            path = self._names.path(cell, outermost=not self.stack, parent=parent)
        if path is None:
            return original(cell, *args, **kwargs)
        type_name = type(cell).__name__
        self.has_gradients = False
        noted = self._enter(path, type_name, args, kwargs) if self._notes_modules and notebook.is_open else None
        self.stack.append(Frame(cell, path, type_name))
        try:
            output = original(cell, *args, **kwargs)
        finally:
            self.stack.pop()
        if noted is not None and notebook.is_open:
            with notebook.own_work():
                self._leave(*noted, output)
        return output

    def _enter(
        self, path: str, type_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Draft, Named] | None:
        notebook = self._notebook
        noted: tuple[Draft, Named] | None = None
        with notebook.own_work():
            phase: Phase = "backward" if self.in_backward else "forward"
            draft = notebook.draft("module", phase, path, type_name, type_name)
            draft.source = self._lines.find(sys._getframe(3))
            inputs = [*named_values("input", args, self._tensor), *named_values("input", kwargs, self._tensor)]
            notebook.see(draft, inputs)
            noted = draft, inputs
        if noted is not None:
            noted[0].start_us = notebook.now_us()
        return noted

    def _leave(self, draft: Draft, inputs: Named, output: Any) -> None:
        draft.duration_us = self._notebook.now_us() - draft.start_us
        whole = output if isinstance(output, (tuple, list, dict)) else (output,)
        outputs = list(named_values("output", whole, self._tensor))
        self._notebook.see(draft, outputs, outputs=True)
        self._notebook.finish(draft)
        if draft.phase == "forward":
            self._watch_gradients(draft, inputs, outputs)

    def _watch_gradients(self, forward: Draft, inputs: Named, outputs: Named) -> None:
        """Put hooks on the tensors of a call. A hook is told the whole gradient of its tensor, all uses together."""
        pending = _Pending(forward.path, forward.type_name)
        for name, tensor in (*outputs, *inputs):
            if _takes_hooks(tensor):
                with suppress(RuntimeError):  # MindSpore refuses where no gradient is asked of a tensor
                    tensor.register_hook(partial(self._on_gradient, pending, f"grad_{name}"))

    def _on_gradient(self, pending: _Pending, name: str, gradient: Any) -> None:
        notebook = self._notebook
        if gradient is None or not notebook.is_open or not self.in_backward:
            return  # MindSpore tells None of a result that nothing depends on
        with notebook.own_work():
            if pending.draft is None:
                draft = notebook.draft("module", "backward", pending.path, pending.type_name, pending.type_name)
                pending.draft = draft
                self._pending.append(pending)
            notebook.see(pending.draft, [(name, gradient)], outputs=name.startswith("grad_input"))
            pending.draft.duration_us = notebook.now_us() - pending.draft.start_us

    def end_backward(self) -> None:
        """Add a row for each call whose gradients have arrived, in the order in which the last of them did."""
        self.has_gradients = True
        drafts = []
        for pending in self._pending:
            if pending.draft is not None and pending.draft.inputs:  # without a gradient of its output it did nothing
                drafts.append(pending.draft)
            pending.draft = None
        self._pending.clear()
        for draft in sorted(drafts, key=lambda one: one.start_us + one.duration_us):
            self._notebook.finish(draft)


@dataclass(slots=True)
class _Pending:
    """The backward of one call."""

    path: str
    type_name: str
    draft: Draft | None = None
    """Its row, once a gradient has arrived."""


def _takes_hooks(tensor: Any) -> bool:
    """Tell whether a hook on a tensor can ever be called: gradients are of floating-point numbers."""
    import mindspore

    return not isinstance(tensor, mindspore.Parameter) and bool(tensor.dtype.is_floating_point)
