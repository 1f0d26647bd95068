"""Records runs of `tf.Session`: `SessionWatch`. What a run calculates is fetched together with what the program asks.

A step is a run that updates parameters; in a program that updates none, each run that calculates. Modules are name
scopes.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.graphs import (
    NOT_ROWS,
    Gradients,
    RunPlan,
    is_read,
    operations_of,
    scope_of,
    variable_behind,
)
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.names import of_name, plain_values
from jumar.capture.frameworks.tensorflow.observe.scopes import Scope, scopes_of, settings_of
from jumar.capture.notes.patches import Patches

PREFIX = "tf::"
_SETTINGS = {
    "lr": "learning_rate", "alpha": "learning_rate", "momentum": "momentum", "beta1": "beta1", "beta2": "beta2",
    "epsilon": "epsilon", "rho": "rho", "l1": "l1", "l2": "l2", "lr_power": "lr_power",
}  # fmt: skip
"""Arguments of operators that update, and the names of optimizers' settings."""


class Fetched:
    """The value of a tensor of a graph in one run."""

    def __init__(self, value: Any, dtype: Any) -> None:
        self.value, self.dtype, self.shape = np.asarray(value), dtype, np.shape(value)

    def numpy(self) -> Any:
        """Return the value."""
        return self.value


class SessionWatch:
    """Stands around `BaseSession.run`."""

    def __init__(
        self,
        notebook: Any,
        layouts: Layouts,
        show_file: Callable[[str], str],
        levels: Any,
        on_step_end: Callable[[], None],
    ) -> None:
        self._notebook, self._layouts, self._show_file = notebook, layouts, show_file
        self._notes_modules, self.notes_operators = "module" in levels, "op" in levels
        self._on_step_end = on_step_end
        self._gradients = Gradients()
        self._patches = Patches()
        self._plans: Any = weakref.WeakKeyDictionary()
        self._is_inside = False
        self.layers: dict[str, dict[str, Any]] = {}
        self.settings: dict[str, dict[str, list[Any]]] = {}
        self.calls: dict[str, int] = {}
        self.losses: list[float] = []
        self.num_unseen = 0
        self.num_steps = 0

    def start(self) -> None:
        """Begin to watch."""
        from tensorflow.python.client import session
        from tensorflow.python.ops import gradients_util

        self._replace(session.BaseSession, "run", self._run)
        self._replace(gradients_util, "_GradientsHelper", self._gradients.helper)
        watch_keras(self._patches)

    def stop(self) -> None:
        """Watch no more."""
        self._patches.restore()

    def begin_step(self) -> None:
        """Forget the step before."""
        self.settings, self.calls, self.losses = {}, {}, []

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = vars(owner)[name]

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        self._patches.replace(owner, name, wrapper)

    def _run(self, original: Any, session: Any, fetches: Any, feed_dict: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self._is_inside:
            return original(session, fetches, feed_dict, *args, **kwargs)
        plan, extra = None, []
        with self._notebook.own_work():
            plan = self._plan(session.graph, fetches)
            if plan is not None:
                extra = plan.tensors(self._notebook.is_open)
        if plan is None:
            return original(session, fetches, feed_dict, *args, **kwargs)
        self._is_inside = True
        try:
            began = self._notebook.now_us()
            own, values = original(session, (fetches, extra), feed_dict, *args, **kwargs)
            with self._notebook.own_work():
                found = self._fetched(extra, values)
                self._note(plan, found, original, session, began)
        finally:
            self._is_inside = False
        self.num_steps += 1
        self._on_step_end()
        return own

    def _plan(self, graph: Any, fetches: Any) -> Any:
        """Return what a run calculates; None where it is no step."""
        targets = operations_of(graph, fetches)
        key = tuple(sorted({one.name for one in targets})), len(graph.get_operations())
        known = self._plans.setdefault(graph, {})
        if key not in known:
            known[key] = RunPlan(graph, targets, self._gradients.of(graph), self._layouts)
        plan = known[key]
        if plan.trains:
            return plan
        trains = any(one.type.startswith(("Apply", "ResourceApply")) for one in graph.get_operations())
        calculates = any(
            one.type in ("MatMul", "Conv2D", "Conv3D", "BatchMatMulV2", "DepthwiseConv2dNative")
            for one in plan.operations
        )
        return plan if calculates and not trains else None

    def _fetched(self, tensors: list[Any], values: list[Any]) -> dict[str, Fetched]:
        found = {}
        for tensor, value in zip(tensors, values):
            one = found[tensor.name] = Fetched(value, tensor.dtype)
            layout = self._layouts.of(tensor)
            if layout:
                self._layouts.tag(one, layout)
        return found

    def _note(self, plan: RunPlan, found: dict[str, Fetched], original: Any, session: Any, began: float) -> None:
        self.losses = [float(np.mean(found[one.name].value.astype(float))) for one in plan.losses]
        updates = self._updates(plan, found)
        self.num_unseen = max(self.num_unseen, plan.num_unseen)
        if not self._notebook.is_open:
            return
        scopes = scopes_of(plan) if self._notes_modules else []
        for scope in scopes:
            if scope.kind != "Scope":
                self.layers[scope.path] = settings_of(scope)
        ending: dict[str, list[Scope]] = {}
        for scope in scopes:
            ending.setdefault(scope.last.name, []).append(scope)
        waiting = list(reversed(scopes))
        for operation in plan.operations:
            phase = plan.phase(operation)
            if phase != "forward" and waiting:
                self._note_losses(plan, found)
                self._note_backward(plan, waiting, found)
                waiting = []
            if (
                self.notes_operators
                and operation.type not in NOT_ROWS
                and not is_read(operation)
                and phase != "optimizer"
            ):
                self._note_operator(plan, operation, phase, found)
            for scope in ending.get(operation.name, ()):
                self._note_scope(scope, found)
        if not plan.backward and waiting:
            self._note_losses(plan, found)
        self._note_updates(plan, updates, found, original, session)

    def _see(self, draft: Any, prefix: str, tensors: Any, found: dict[str, Fetched], outputs: bool) -> None:
        named = [(f"{prefix}.{place}", found[one.name]) for place, one in enumerate(tensors) if one.name in found]
        self._notebook.see(draft, named, outputs=outputs)

    def _note_operator(self, plan: RunPlan, operation: Any, phase: str, found: dict[str, Fetched]) -> None:
        path = scope_of(operation) if phase == "forward" else ""
        draft = self._notebook.draft("op", phase, path, "", PREFIX + operation.type)
        draft.source = self._line(operation)
        draft.arguments = _arguments(operation)
        self._see(draft, "input", operation.inputs, found, False)
        self._see(draft, "output", operation.outputs, found, True)
        if draft.inputs or draft.outputs:
            self._notebook.finish(draft)

    def _note_scope(self, scope: Scope, found: dict[str, Fetched]) -> None:
        draft = self._notebook.draft("module", "forward", scope.path, scope.kind, scope.kind)
        draft.source = self._line(scope.operations[0])
        self._see(draft, "input", scope.inputs, found, False)
        self._see(draft, "output", scope.outputs, found, True)
        self._notebook.finish(draft)

    def _note_losses(self, plan: RunPlan, found: dict[str, Fetched]) -> None:
        for loss in plan.losses:
            draft = self._notebook.draft("loss", "forward", "", "", "loss")
            self._see(draft, "output", [loss], found, True)
            self._notebook.finish(draft)

    def _note_backward(self, plan: RunPlan, scopes: list[Scope], found: dict[str, Fetched]) -> None:
        for scope in scopes:
            draft = self._notebook.draft("module", "backward", scope.path, scope.kind, scope.kind)
            for tensors, prefix in ((scope.outputs, "grad_output"), (scope.inputs, "grad_input")):
                gradients = [plan.gradients.get(one.name) for one in tensors]
                named = [
                    (f"{prefix}.{place}", found[one.name])
                    for place, one in enumerate(gradients)
                    if one is not None and one.name in found
                ]
                self._notebook.see(draft, named, outputs=prefix == "grad_input")
            if draft.inputs:
                self._notebook.finish(draft)

    def _updates(self, plan: RunPlan, found: dict[str, Fetched]) -> list[tuple[Any, str, dict[str, Any]]]:
        """Return the operators that update, each with the name of its optimizer and its settings."""
        updates = []
        for operation in plan.applies:
            name = re.sub("^(Resource)?(Sparse)?Apply|V2$", "", operation.type)
            name = {"AdamWithAmsgrad": "Adam", "KerasMomentum": "Momentum"}.get(name, name)
            settings = {}
            for argument, tensor in zip(operation.op_def.input_arg, operation.inputs):
                value = found.get(tensor.name)
                if argument.name in _SETTINGS and value is not None and value.value.size == 1:
                    settings[_SETTINGS[argument.name]] = float(str(value.value.reshape(-1)[0]))
            if "use_nesterov" in operation.node_def.attr:
                settings["nesterov"] = bool(operation.get_attr("use_nesterov"))
            updates.append((operation, name, settings))
        for name in sorted({name for _, name, _ in updates}):
            groups = _groups(updates, name)
            keys = sorted({key for group in groups for key in group})
            self.settings[name] = {key: [dict(group).get(key) for group in groups] for key in keys}
            self.calls[name] = 1
        return updates

    def _note_updates(
        self, plan: RunPlan, updates: Any, found: dict[str, Fetched], original: Any, session: Any
    ) -> None:
        for name, settings in self.settings.items():
            draft = self._notebook.draft("optimizer", "optimizer", "", "", name)
            draft.arguments = settings
            self._notebook.finish(draft)
        wanted = {}
        for operation, name, settings in updates:
            key = variable_behind(operation.inputs[0]) or operation.inputs[0].op.name
            if key in plan.variables:
                wanted[key] = operation, name, settings
        elements = {key: plan.variables[key]._as_graph_element() for key in wanted}
        values = original(session, elements)
        for key, (operation, name, settings) in wanted.items():
            path, _, last = of_name(str(plan.variables[key].name))
            draft = self._notebook.draft("parameter", "optimizer", path, "", last)
            group = _groups(updates, name).index(settings)
            draft.arguments = {"optimizer": name, "occurrences": [0], "group": group}
            layout = plan.of_variables.get(key, "")
            gradient = _gradient_of(operation, found, values[key])
            if gradient is not None:
                self._layouts.tag(gradient, layout)
                self._notebook.see(draft, [("input.grad", gradient)])
            after = Fetched(values[key], plan.variables[key].dtype.base_dtype)
            self._layouts.tag(after, layout)
            self._notebook.see(draft, [("output.0", after)], outputs=True)
            self._notebook.finish(draft)

    def _line(self, operation: Any) -> str:
        """Return `file:line` of the innermost line of the user's that made an operator."""
        for frame in reversed(list(operation.traceback or ())):
            name, line = (frame.filename, frame.lineno) if hasattr(frame, "filename") else (frame[0], frame[1])
            shown = self._show_file(str(name))
            if shown:
                return f"{shown}:{line}"
        return ""


def _groups(updates: Any, name: str) -> list[dict[str, Any]]:
    """Return the different settings with which an optimizer updates."""
    found: list[dict[str, Any]] = []
    for _, other, settings in updates:
        if other == name and settings not in found:
            found.append(settings)
    return found


def _gradient_of(operation: Any, found: dict[str, Fetched], like: Any) -> Any:
    """Return the gradient that an operator updates with, whole where it is sparse; None where it was not fetched."""
    by_name = {argument.name: tensor for argument, tensor in zip(operation.op_def.input_arg, operation.inputs)}
    tensor = by_name.get("grad", by_name.get("delta"))
    value = found.get(tensor.name) if tensor is not None else None
    indices = found.get(by_name["indices"].name) if "indices" in by_name else None
    if value is None or indices is None:
        return value if "indices" not in by_name else None
    whole = np.zeros(np.shape(like), value.value.dtype)
    np.add.at(whole, indices.value, value.value)
    return Fetched(whole, value.dtype)


def _arguments(operation: Any) -> dict[str, Any]:
    found = {}
    for name in operation.node_def.attr:
        if not name.startswith("_") and name not in ("T", "dtype", "shape", "value"):
            try:
                value = operation.get_attr(name)
            except ValueError:
                continue
            found[str(name)] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return plain_values(found)


def watch_keras(patches: Patches) -> None:
    """Let the functions that Keras makes of a graph run as `Session.run`: they have a way of their own to a session."""
    try:
        from keras.src import backend  # type: ignore[import-not-found]
    except ImportError:
        return
    kind = getattr(backend, "GraphExecutionFunction", None)
    if kind is None:
        return

    def call(function: Any, inputs: Any) -> Any:
        import tensorflow as tf

        given = tf.nest.flatten(inputs, expand_composites=True)
        session = backend.get_session(given)
        feed = {key: value for key, value in zip(function.inputs, given) if value is not None}
        feed.update(function.feed_dict or {})
        fetches = [list(function.outputs), function.updates_op, list(function.fetches)]
        outputs, _, fetched = session.run(fetches, feed)
        for tensor, value in zip(function.fetches, fetched):
            if tensor in function.fetch_callbacks:
                function.fetch_callbacks[tensor](value)
        return tf.nest.pack_sequence_as(function._outputs_structure, outputs, expand_composites=True)

    patches.replace(kind, "__call__", call)


def plain_file(name: str) -> str:
    """Return a file's name without its folder; empty for packages and Python's own."""
    hidden = name.startswith("<") or "site-packages" in name or "/tensorflow" in name or "dist-packages" in name
    return "" if hidden or "/lib/python" in name else name.replace("\\", "/").rpartition("/")[2]
