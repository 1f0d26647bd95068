"""Recording from within a program: `with jumar.record(...)`, and callbacks for the training loops of Lightning and
Hugging Face.

`jumar.LightningRecorder` and `jumar.HuggingFaceRecorder` import their library when an instance is made; the instance is
one of the library's own callback class, too. Only training steps are recorded: validation, logging and saving between
them are not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumar.capture.frameworks.libraries import HUGGING_FACE, LIGHTNING, LibraryCallback, barrier
from jumar.capture.plans.budget import parse_budget
from jumar.capture.plans.patterns import read_patterns
from jumar.capture.plans.plan import DEFAULT_LEVELS, DEFAULT_VALUES, Compiled, RecordPlan, Vary
from jumar.capture.process.inherit import end_with_the_process
from jumar.capture.session.ending import Status
from jumar.capture.session.session import Session
from jumar.capture.session.tracebacks import user_traceback
from jumar.recording import Level, Values


def plan_of(
    out: str | os.PathLike[str],
    *,
    levels: Sequence[Level] = DEFAULT_LEVELS,
    values: Values = DEFAULT_VALUES,
    steps: tuple[int, int] | None = None,
    budget: str | None = None,
    tensors_of: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    compiled: Compiled = "borders",
    vary: Vary = "",
    force: bool = False,
) -> RecordPlan:
    """Return the plan that these arguments of `record` mean. Raises UsageError."""
    size, slowdown = parse_budget(budget)
    patterns = (tensors_of,) if isinstance(tensors_of, str | os.PathLike) else tensors_of
    return RecordPlan(
        out=os.fspath(out),
        levels=tuple(levels),
        values=values,
        steps=steps,
        budget_bytes=size,
        budget_slowdown=slowdown,
        tensors_of=read_patterns([os.fspath(pattern) for pattern in patterns]),
        compiled=compiled,
        vary=vary,
        force=force,
        command=tuple(sys.argv),
    )


@contextmanager
def record(
    out: str | os.PathLike[str],
    *,
    model: Any = None,
    levels: Sequence[Level] = DEFAULT_LEVELS,
    values: Values = DEFAULT_VALUES,
    steps: tuple[int, int] | None = None,
    budget: str | None = None,
    tensors_of: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    compiled: Compiled = "borders",
    vary: Vary = "",
    force: bool = False,
) -> Iterator[Session]:
    """Record what runs inside the `with` block into the folder `out`.

    `model` names the module whose path is the empty one; without it that is the first outermost
    module with parameters that is called. `steps` is (first, end), counted from 0 within the block.
    `budget`, `tensors_of`, `compiled` and `vary` are those of `jumar record`: `"200MB,20%"`; patterns of row keys,
    or files with a list of them; `"graph"` to run regions of `torch.compile` operator by operator; `"ulp"` (or
    `"threads"`, `"kernels"`) to run the block under other conditions, for the noise floor of a comparison.

    Raises OutputError when `out` cannot be used, UsageError when another recording is under way or an
    argument is not one there is. What the block raises is passed on, after the finished steps are written.
    """
    plan = plan_of(
        out,
        levels=levels,
        values=values,
        steps=steps,
        budget=budget,
        tensors_of=tensors_of,
        compiled=compiled,
        vary=vary,
        force=force,
    )
    session = Session(plan, model=model, folder=Path(sys.argv[0]).resolve().parent)
    session.start()
    try:
        yield session
    except KeyboardInterrupt:
        session.end("interrupted", exit_code=130)
        raise
    except BaseException as error:
        session.end("raised", exit_code=1, error=user_traceback(error))
        raise
    session.end("finished")


class TrainingRecorder(LibraryCallback):
    """What both callbacks share. Takes the arguments of `jumar.record`.

    Under `jumar record` the recording of that command goes on, and the callback only says what is training.
    Raises UsageError when the library is not installed or an argument is not one there is.
    """

    def __init__(self, out: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(out, **options)
        self._plan: Any = plan_of(out, **options)
        self._session: Session | None = None
        self._is_own = False

    @property
    def session(self) -> Session | None:
        """The recording under way, None outside of training."""
        return self._session

    def _begin(self, model: Any, rank: int, wait: Callable[[], Any]) -> None:
        """Start to record; rank 0 makes the folder while the others `wait`."""
        self._is_own = Session.current is None
        if not self._is_own:
            self._session = Session.current
            return
        folder = Path(sys.argv[0]).resolve().parent
        try:
            if rank == 0:
                self._session = Session(self._plan, model=model, folder=folder)
        finally:
            wait()
        if self._session is None:
            self._session = Session(replace(self._plan, prepared=True), model=model, folder=folder)
        end_with_the_process(self._session)
        self._session.start()

    def _aside(self, is_aside: bool) -> None:
        """Say whether what runs now is no part of training."""
        if self._session is not None:
            self._session.observer.notebook.watch.busy = is_aside

    def _finish(self, status: Status, error: BaseException | None = None) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        session.observer.notebook.watch.busy = False
        if self._is_own:
            session.end(status, exit_code=int(error is not None), error=user_traceback(error) if error else "")


class LightningRecorder(TrainingRecorder):
    """A callback of Lightning: `Trainer(callbacks=[jumar.LightningRecorder("recording", steps=(0, 3))])`.

    Works with `lightning` and `pytorch_lightning`, on each rank. A path of a module is that below the
    LightningModule.
    """

    LIBRARIES = LIGHTNING

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to record."""
        self._begin(pl_module, trainer.global_rank, trainer.strategy.barrier)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leave validation out."""
        self._aside(True)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on."""
        self._aside(False)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Keep nothing in checkpoints."""

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the recording."""
        self._finish("finished")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the recording; what was finished stays."""
        self._finish("interrupted" if isinstance(exception, KeyboardInterrupt) else "raised", exception)


class HuggingFaceRecorder(TrainingRecorder):
    """A callback of the Trainer: `Trainer(..., callbacks=[jumar.HuggingFaceRecorder("recording", steps=(0, 3))])`.

    What runs between two training steps (evaluation, logging, saving) is not recorded.
    """

    LIBRARIES = HUGGING_FACE

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Start to record."""
        self._begin(model, int(getattr(args, "process_index", 0)), barrier)
        self._aside(True)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record: a step begins with its first micro-batch."""
        self._aside(False)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave out what follows until the next step."""
        self._aside(True)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording."""
        self._finish("finished")
