"""Notes module calls, the gradients of their inputs and outputs, and losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from jumar.capture.notes.attribution import Attribution, Origin, current_node
from jumar.capture.notes.calls import Site
from jumar.capture.notes.nested import named_values
from jumar.capture.watch.gradients import GradientHooks, Pending
from jumar.capture.watch.notebook import Notebook
from jumar.capture.watch.stack import Frame
from jumar.recording import Phase

Tensor = torch.Tensor


class CallWatch:
    """Listens to module hooks, tensor hooks and calls of `backward`.

    With `notes_modules=False` only losses become rows, and modules still give operators their paths.
    """

    def __init__(
        self,
        notebook: Notebook,
        attribution: Attribution,
        on_root: Callable[[nn.Module], None],
        *,
        notes_modules: bool,
    ) -> None:
        self._notebook = notebook
        self._attribution = attribution
        self._notes_modules = notes_modules
        self.gradients = GradientHooks(self.on_gradient, self._backward_site)
        self.on_root = on_root

    def on_enter(self, frame: Frame, args: tuple[Any, ...]) -> None:
        """See `ModuleListener`."""
        notebook = self._notebook
        if not notebook.takes_notes:
            return
        fast = notebook.fast if self._notes_modules and notebook.sees_writes else None
        if fast is not None:
            frame.call = fast.enter_module(frame.origin, args)
            return
        if torch.is_grad_enabled():
            self._attribution.here().enter(frame.origin)
        if not self._notes_modules:
            return
        with notebook.own_work():
            phase: Phase = "forward" if current_node() is None else "backward"
            call = notebook.new_call("module", phase, frame.path, frame.type_name, frame.type_name)
            tensors = list(named_tensors("input", args))
            call.inputs = notebook.see_all(tensors)
            notebook.keep(call, call.inputs, tensors)
            call.start_us = notebook.now_us()
            frame.call = call, tensors

    def on_leave(self, frame: Frame, kwargs: dict[str, Any], output: Any, parent: Frame | None) -> None:
        """See `ModuleListener`."""
        notebook = self._notebook
        if not notebook.takes_notes:
            return
        fast = notebook.fast if notebook.sees_writes else None
        if fast is not None and frame.call is not None and output is not None:
            fast.leave_module(frame.origin, parent and parent.origin, *frame.call, kwargs, output)
            return
        if torch.is_grad_enabled() and parent is not None:
            self._attribution.here().enter(parent.origin)
        if frame.call is None or output is None:
            return
        call, inputs = frame.call
        call.duration_us = notebook.now_us() - call.start_us
        with notebook.own_work():
            keywords = list(named_tensors("input", kwargs))
            outputs = list(named_tensors("output", output if isinstance(output, (tuple, list, dict)) else (output,)))
            call.inputs += notebook.see_all(keywords)
            call.outputs = notebook.see_all(outputs)
            notebook.keep(call, call.inputs, (inputs, keywords))
            notebook.keep(call, call.outputs, outputs)
            notebook.calls.append(call)
            self.gradients.attach(frame.path, frame.type_name, inputs + keywords, outputs)

    def on_loss(self, loss: Tensor) -> None:
        """Note a tensor that `backward` is called on."""
        notebook = self._notebook
        if not notebook.takes_notes:
            return
        with notebook.own_work():
            call = notebook.new_call("loss", "forward", "", "", "loss")
            call.start_us = notebook.now_us()
            call.outputs = ["output.0", notebook.see_loss(loss)]
            notebook.keep(call, call.outputs, loss.detach())
            notebook.calls.append(call)

    def _backward_site(self, path: str, kind: str) -> Site:
        return self._notebook.site_at("module", "backward", path, kind, kind)

    def site_of(self, origin: Origin, phase: Phase) -> Site:
        """Return where calls of a module in the forward pass are counted, or their backward rows."""
        return self._notebook.site_at("module", phase, origin.module_path, origin.module_type, origin.module_type)

    def on_gradient(self, pending: Pending, name: str, gradient: Tensor | None) -> None:
        """Note a gradient as it arrives; None for an output that the loss does not depend on."""
        notebook = self._notebook
        if not notebook.takes_notes:
            return
        with notebook.own_work():
            now, call = notebook.now_us(), pending.call
            if call is None or name not in pending.missing or id(call) not in notebook.unfinished:
                call = notebook.call_at(pending.site)
                call.start_us = now
                pending.call, pending.missing = call, set(pending.names)
                notebook.unfinished[id(call)] = call
            call.duration_us = now - call.start_us
            if gradient is not None:
                side = call.inputs if name.startswith("grad_output") else call.outputs
                side += (name, notebook.see(gradient))
                notebook.keep(call, side[-2:], gradient)
            pending.missing.discard(name)
            if not pending.missing:
                notebook.calls.append(notebook.unfinished.pop(id(call)))


def named_tensors(prefix: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) of the tensors in nested tuples, lists and dictionaries: `input.2.1`, `output.logits`."""
    return named_values(prefix, value, Tensor)
