"""Where a step ends, losses, loss scales and backward passes of a MindSpore program: `TrainingWatch`.

With an optimizer a step ends when it has been called and the outermost cell (`TrainOneStepCell`) has returned; also
when a loss scaler found Inf or NaN and left the update out. Of several optimizers the one that completes the first
round ends each step. In a program without any optimizer a step is one call of an outermost cell that has parameters,
and all that follows until the next such call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jumar.capture.frameworks.mindspore.cells import CellWatch
from jumar.capture.frameworks.mindspore.optimizers import OptimizerRows, parameters_of
from jumar.capture.frameworks.notebook import Draft, Notebook
from jumar.capture.notes.nested import named_values
from jumar.capture.notes.patches import Patches
from jumar.capture.notes.rounds import FirstRound


class TrainingWatch:
    """Calls `on_step_end` when a step is complete, and `on_restart` when the steps so far turn out to be none."""

    def __init__(
        self,
        notebook: Notebook,
        cells: CellWatch,
        optimizers: OptimizerRows,
        on_step_end: Callable[[], None],
        on_restart: Callable[[], None],
        on_optimizer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_optimizer` is told how many parameters each new optimizer trains."""
        self._notebook, self._cells, self._optimizers = notebook, cells, optimizers
        self._on_step_end, self._on_restart, self._on_optimizer = on_step_end, on_restart, on_optimizer
        self._round = FirstRound(parameters_of)
        self._leader: Any = None
        self._depth = 0
        """Cells that are being called, wrappers and optimizers included."""
        self._ends = False
        """Whether the step ends when the outermost cell returns."""
        self._has_gradients = False
        self._gradients_of: tuple[Any, Any] = ((), ())
        self._unscaled: dict[int, tuple[Any, Any]] = {}
        self.losses: list[float] = []
        self.has_optimizer = False
        self.sinks: bool | None = None
        """What `Model.train` was given as dataset_sink_mode; None where it was not called."""
        self.is_open = False
        """Whether something has been computed that no step has yet."""
        self._patches = Patches()

    def start(self) -> None:
        """Begin to watch."""
        from mindspore import amp, nn
        from mindspore.experimental.optim.optimizer import Optimizer as Experimental
        from mindspore.ops.composite import base

        self._wrappers = (nn.TrainOneStepCell,)
        self._kinds = (nn.Optimizer, Experimental)
        original = nn.Cell.__call__

        def call(cell: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call(cell, original, args, kwargs)

        self._patches.replace(nn.Cell, "__call__", call)
        for kind in self._kinds:
            self._patch_construction(kind)
        self._patch_gradients(base)
        self._patch_model()
        for kind in (amp.StaticLossScaler, amp.DynamicLossScaler):
            self._patch_scaler(kind)

    def stop(self) -> None:
        """Take all wrappers away."""
        self._patches.restore()

    def begin_step(self) -> None:
        """Forget the step before."""
        self._ends = self._has_gradients = self.is_open = self._cells.has_gradients = False
        self._gradients_of = ((), ())
        self._unscaled.clear()
        self.losses = []

    def _call(self, cell: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(cell, self._kinds):
            return self._update(cell, original, args, kwargs)
        if not self._depth and not self.has_optimizer and self.is_open and _has_parameters(cell):
            self._on_step_end()
        self.is_open = self.is_open or self._depth > 0 or _has_parameters(cell)
        if isinstance(cell, self._wrappers):
            self._note_scale(cell)
        self._depth += 1
        try:
            result = self._cells.call(cell, original, args, kwargs)
        finally:
            self._depth -= 1
        if not self._depth and not self._cells.in_backward:
            self._returned(cell, result)
        return result

    def _returned(self, cell: Any, result: Any) -> None:
        """Take in that an outermost cell has returned: of a step, or of a step whose update was left out."""
        if isinstance(cell, self._wrappers):
            self._note_overflow(cell, result)
            if self._has_gradients and not self._ends:
                self._skip()
                self._ends = True
        if self._ends:
            self._on_step_end()

    def _note_scale(self, cell: Any) -> None:
        """Note the scale that a training cell is about to use: it changes its parameter within the call."""
        scale: Any = getattr(cell, "scale_sense", None)
        if hasattr(scale, "asnumpy"):
            with self._notebook.own_work():
                self._notebook.info["loss_scale"] = float(scale.asnumpy().reshape(-1)[0])

    def _note_overflow(self, cell: Any, result: Any) -> None:
        if hasattr(cell, "scale_sense") and isinstance(result, tuple) and len(result) >= 3:
            with self._notebook.own_work():
                overflow = result[1].asnumpy() if hasattr(result[1], "asnumpy") else result[1]
                self._notebook.info.setdefault("skipped", bool(np.any(overflow)))

    def _skip(self) -> None:
        """Note an update that was left out: the gradients that it would have read."""
        parameters, gradients = self._gradients_of
        with self._notebook.own_work():
            self._notebook.info["skipped"] = True
            if self._notebook.is_open:
                self._optimizers.note_gradients(parameters, gradients)

    def _update(self, optimizer: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Call an optimizer, and note it."""
        notebook = self._notebook
        draft: Draft | None = None
        with notebook.own_work():
            draft = self._optimizers.before(optimizer, args[0] if args else kwargs.get("gradients", ()))
        began = notebook.now_us()
        was_open, notebook.is_open = notebook.is_open, False  # parameter rows say what its operators did
        try:
            result = original(optimizer, *args, **kwargs)
        finally:
            notebook.is_open = was_open
        if draft is not None:
            draft.start_us, draft.duration_us = began, notebook.now_us() - began
            notebook.finish(draft)
        self.is_open = self.has_optimizer = True
        if self._leader is None and self._round.is_complete_with(optimizer):
            self._leader = optimizer
        if optimizer is self._leader:
            self._ends = True
            if not self._depth:
                self._on_step_end()
        return result

    def _patch_construction(self, kind: type) -> None:
        original = kind.__dict__["__init__"]

        def construct(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if not self.has_optimizer:
                self.has_optimizer = True
                self._on_restart()
            original(optimizer, *args, **kwargs)
            self._round.add(optimizer)
            self._on_optimizer(len(parameters_of(optimizer)))

        self._patches.replace(kind, "__init__", construct)

    def _patch_model(self) -> None:
        from mindspore.train import Model

        train = Model.__dict__["train"]

        def train_and_note(model: Any, *args: Any, **kwargs: Any) -> Any:
            self.sinks = bool(kwargs.get("dataset_sink_mode", args[3] if len(args) > 3 else False))
            return train(model, *args, **kwargs)

        self._patches.replace(Model, "train", train_and_note)

    def _patch_gradients(self, base: Any) -> None:
        """Watch what `value_and_grad`, `grad` and `GradOperation` run in PyNative mode."""
        forward, backward = base._pynative_func_grad_forward, base._pynative_func_grad_backward

        def run_forward(fn: Any, *args: Any, **kwargs: Any) -> Any:
            result = forward(fn, *args, **kwargs)
            self._on_loss(result)
            return result

        def run_backward(fn: Any, grad_op: Any, weights: Any, *args: Any) -> Any:
            outer, self._cells.in_backward = self._cells.in_backward, True
            try:
                result = backward(fn, grad_op, weights, *args)
            finally:
                self._cells.in_backward = outer
            if not outer:
                self._cells.end_backward()
                self._has_gradients = True
                self._gradients_of = _of_weights(weights, result, grad_op)
            return result

        self._patches.replace(base, "_pynative_func_grad_forward", run_forward)
        self._patches.replace(base, "_pynative_func_grad_backward", run_backward)

    def _on_loss(self, result: Any) -> None:
        """Note what gradients are about to be taken of."""
        from mindspore import Tensor

        loss = next((tensor for _, tensor in named_values("output", result, Tensor)), None)
        if loss is None or self._cells.in_backward:
            return
        known = self._unscaled.get(id(loss))
        loss = known[1] if known is not None and known[0] is loss else loss
        notebook = self._notebook
        with notebook.own_work():
            values = loss.asnumpy().astype(float)
            self.losses.append(float(values.mean()) if values.size else float("nan"))
            if notebook.is_open:
                draft = notebook.draft("loss", "forward", "", "", "loss")
                notebook.see(draft, [("output.0", loss)], outputs=True)
                notebook.finish(draft)

    def _patch_scaler(self, kind: type) -> None:
        """Watch the scaler of a training that is written by hand."""
        scale, adjust = kind.__dict__["scale"], kind.__dict__["adjust"]

        def scale_and_remember(scaler: Any, inputs: Any) -> Any:
            result = scale(scaler, inputs)
            if hasattr(result, "asnumpy"):
                self._unscaled[id(result)] = result, inputs
                with self._notebook.own_work():
                    self._notebook.info["loss_scale"] = float(scaler.scale_value.asnumpy().reshape(-1)[0])
                    self._notebook.info.setdefault("skipped", False)
            return result

        def adjust_and_note(scaler: Any, grads_finite: Any) -> Any:
            result = adjust(scaler, grads_finite)
            is_finite = True
            with self._notebook.own_work():
                found = grads_finite.asnumpy() if hasattr(grads_finite, "asnumpy") else grads_finite
                is_finite = bool(np.all(found))
            if not is_finite and self._has_gradients and not self._ends:
                self._skip()
                self._ends = True
                if not self._depth:
                    self._on_step_end()
            return result

        self._patches.replace(kind, "scale", scale_and_remember)
        self._patches.replace(kind, "adjust", adjust_and_note)


def _of_weights(weights: Any, result: Any, operation: Any) -> tuple[Any, Any]:
    """Return the parameters that gradients were asked of, and the gradients."""
    if weights is None or isinstance(weights, (str, bytes)):
        return (), ()
    parameters = tuple(weights) if isinstance(weights, (tuple, list)) else (weights,)
    gradients = result
    if (getattr(operation, "get_all", False) or getattr(operation, "get_by_position", False)) and isinstance(
        result, tuple
    ):
        gradients = result[-1]
    return parameters, gradients


def _has_parameters(cell: Any) -> bool:
    return next(iter(cell.get_parameters()), None) is not None
