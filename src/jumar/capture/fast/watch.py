"""The hot path of a recording in C++, where it can be compiled: when it is used, and for which steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.capture.fast.host import Host, is_fit, kind_of_values
from jumar.capture.fast.loading import Loader
from jumar.capture.notes.attribution import Attribution, Origin
from jumar.capture.notes.calls import Call, Seen
from jumar.capture.watch.modules import CallWatch
from jumar.capture.watch.notebook import Notebook
from jumar.capture.watch.operators import OperatorWatch

Tensor = torch.Tensor


class FastStorages:
    """What `StorageTable` does, by the module `observe`."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.find: Callable[..., tuple[Seen, bool]] = module.find
        self.locate: Callable[[Tensor], Seen] = module.locate
        self.outline: Callable[[Tensor], Seen] = module.outline
        self.note_write: Callable[[Tensor], None] = module.note_write
        self.note_result: Callable[[Tensor], None] = module.note_result
        self.carry: Callable[[Tensor, Seen], None] = module.carry
        self.forget_values: Callable[[], None] = module.forget_values
        self.look: Callable[..., Seen] = module.see
        """As `find`, and what is new has been looked at by the probes."""
        self.enter_module: Callable[[Origin, tuple[Any, ...]], tuple[Call, list[tuple[str, Tensor]]] | None] = (
            module.enter_module
        )
        """Note a module that is about to run: its call, and the tensors among its arguments."""
        self.leave_module: Callable[..., None] = module.leave_module
        """Note that it has: its origin, its parent's or None, call, tensors, keyword arguments, output."""

    def clear(self, *, carries: bool = False) -> None:
        """See `StorageTable.clear`."""
        self._module.clear(carries)


class FastWatch:
    """Lets C++ note operators and modules of the steps it is fit for. One at a time in a process."""

    def __init__(
        self, notebook: Notebook, operators: OperatorWatch, calls: CallWatch, attribution: Attribution
    ) -> None:
        self._notebook = notebook
        self._operators = operators
        self._calls = calls
        self._attribution = attribution
        self._loader = Loader()
        self._module: Any = None
        self._host: Host | None = None

    def begin_step(self, mode: Any) -> None:
        """Set up for the step that begins; `mode` is the mode that sees its operators, None when none does."""
        if self._module is None:
            self._module = self._loader.module()
            if self._module is None:
                return
        notebook = self._notebook
        fits = is_fit(notebook)
        if fits and (self._host is None or self._host.values != kind_of_values(notebook.tensor_probes)):
            self._host = Host(notebook, self._operators, self._calls, self._attribution)
            self._module.set_up(self._host)
            notebook.use(FastStorages(self._module))
        elif not fits and self._host is not None:
            self.stop()
        self._module.observe(mode if fits else None)

    def began(self) -> None:
        """Say where the calls of the step and the gradients of modules go, and when it began."""
        if self._host is not None:
            notebook = self._notebook
            # Without operators each new call forgets what was seen before: Python keeps that order.
            unfinished = notebook.unfinished if notebook.sees_writes else None
            self._module.begin_step(notebook.calls, notebook.step_start, unfinished)

    def pause(self) -> None:
        """Note no operators."""
        if self._host is not None:
            self._module.observe(None)

    def stop(self) -> None:
        """Let Python note everything."""
        if self._host is not None:
            self._notebook.use(None)
            self._module.take_down()
            self._host = None
