"""Collects the numbers of every step and hands them on: `HistoryWatch`.

It runs in steps that are not recorded in detail, too. What it looks at is reduced where it is: the host waits for a
device once a step, when the step has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jumar.capture.history.batch import Batch
from jumar.capture.history.clipping import ClipWatch
from jumar.capture.history.trained import Trained
from jumar.capture.history.untrained import Untrained
from jumar.capture.notes.randomness import step_digests
from jumar.capture.watch.modules import named_tensors
from jumar.capture.watch.naming import ModuleNames
from jumar.capture.watch.notebook import Notebook
from jumar.recording.history.model import HistoryStep

Tensor = torch.Tensor

MOST_CALLS, MOST_INPUTS = 4, 4
"""Calls of outermost modules in a step whose inputs are noted, and tensors of each."""
MOST_LOSSES = 16
"""Calls of `backward` in a step whose losses are noted."""
_HAS_CUDA = hasattr(torch._C, "_cuda_isCurrentStreamCapturing")
_is_initialized: Callable[[], bool] = torch.cuda.is_initialized
OnHistory = Callable[[HistoryStep], None]


class HistoryWatch:
    """Is told of optimizers, losses and module calls; an `OptimizerListener`. Gives each step to `on_step`."""

    def __init__(self, notebook: Notebook, names: ModuleNames, on_step: OnHistory) -> None:
        self._notebook = notebook
        self._names = names
        self._on_step = on_step
        self._batch = Batch()
        self._optimizers: list[Trained] = []
        self._num_of_class: dict[str, int] = {}
        self._untrained = Untrained(names)
        self._clips = ClipWatch(self._on_clip)
        self._num_calls = self._num_losses = 0
        self._rng: dict[str, str] = {}
        self._thread = threading.get_ident()
        self._is_on = False
        self.failure = ""
        """A sentence once the history had to stop, else empty."""

    def start(self) -> None:
        """Begin to watch."""
        self._is_on = True
        self._thread = threading.get_ident()
        self._clips.start()
        with self._at_work():
            self._rng = step_digests()

    def stop(self) -> None:
        """End watching."""
        self._is_on = False
        self._clips.stop()

    # -- what the run does --------------------------------------------------------------------

    def after_root(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the inputs of an outermost module's call."""
        number = self._num_calls
        if not self._sees() or number >= MOST_CALLS:
            return
        self._num_calls += 1
        with self._at_work():
            tensors = [*named_tensors("input", args), *named_tensors("input", kwargs)][:MOST_INPUTS]
            for name, tensor in tensors:
                self._batch.add("input", "", f"{number}.{name}", "", tensor)
            self._batch.reduce()

    def on_loss(self, loss: Tensor) -> None:
        """Note a tensor that `backward` is called on."""
        if not self._sees() or self._num_losses >= MOST_LOSSES:
            return
        with self._at_work():
            value = loss.detach()
            self._batch.add("loss", "", str(self._num_losses), "", value if value.numel() == 1 else value.mean())
            self._batch.reduce()
        self._num_losses += 1

    def _on_clip(self, number: int, norm: Tensor) -> None:
        if self._sees():
            with self._at_work():
                self._batch.add("clipped", "", str(number), "", norm)
                self._batch.reduce()

    def before_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """See `OptimizerListener`."""
        if not has_closure:
            self._note_gradients(optimizer)

    def after_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """See `OptimizerListener`."""
        if has_closure:
            self._note_gradients(optimizer)
        if self._sees():
            self._trained(optimizer).num_calls += 1

    def after_scaled_step(self, scaler: Any, optimizer: Any, *, was_called: bool) -> None:
        """See `OptimizerListener`."""
        if not self._sees() or not scaler.is_enabled():
            return
        if not was_called:
            self._note_gradients(optimizer)
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            with self._at_work():
                self._batch.add("scale", "", "", "", scale)
                self._batch.reduce()

    def _note_gradients(self, optimizer: Any) -> None:
        if self._sees():
            with self._at_work():
                self._trained(optimizer).add_gradients(self._batch)
                self._batch.reduce()

    # -- the end of a step --------------------------------------------------------------------

    def end_step(self, step: int) -> None:
        """Hand the numbers of the step that has ended on, and begin the next one."""
        if not self._sees():
            return
        with self._at_work():
            self._on_step(self._taken(step))
            self._rng = step_digests()
        self._num_calls = self._num_losses = 0

    def _taken(self, step: int) -> HistoryStep:
        self._optimizers = [one for one in self._optimizers if one.reference() is not None]
        trained: set[int] = set()
        for one in self._optimizers:
            one.add_values(self._batch)
            trained.update(id(parameter) for parameter, _ in one.parameters())
        if self._untrained.is_due(step):
            self._untrained.search()
        self._untrained.add(self._batch, trained)
        places, values = self._batch.read()
        taken = HistoryStep(
            step=step,
            settings={one.label: one.settings() for one in self._optimizers} | self._clips.end_step(),
            calls={one.label: one.num_calls for one in self._optimizers},
            rng=self._rng,
            places=places,
            values=values,
        )
        for one in self._optimizers:
            one.num_calls = 0
        return taken

    def _trained(self, optimizer: Any) -> Trained:
        found = next((one for one in self._optimizers if one.reference() is optimizer), None)
        if found is None:
            kind = type(optimizer).__name__
            number = self._num_of_class[kind] = self._num_of_class.get(kind, 0) + 1
            found = Trained(optimizer, kind if number == 1 else f"{kind}#{number}", self._names)
            self._optimizers.append(found)
        return found

    def _sees(self) -> bool:
        """Tell whether what runs now is the run's, on the thread that trains, and may be looked at."""
        return (
            self._is_on
            and not self._notebook.watch.busy
            and threading.get_ident() == self._thread
            and not torch.compiler.is_compiling()
            and not _is_capturing()
        )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """What runs inside is the observer's. When it fails, the history ends and the run goes on."""
        with self._notebook.own_work():
            try:
                yield
            except Exception as error:  # noqa: BLE001 - whatever goes wrong in the observer must not end the run
                self.failure = f"the history of the steps ended, because it failed: {type(error).__name__}: {error}"
                self._is_on = False


def _is_capturing() -> bool:
    """Tell whether a graph of CUDA is being captured, in which nothing may wait for the device."""
    return _HAS_CUDA and _is_initialized() and torch.cuda.is_current_stream_capturing()
