"""The rows of the step under way: `Notebook`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from jumar.capture.notes.clock import RunClock
from jumar.capture.plans.selection import Selection
from jumar.recording import CallRow, Kind, Phase, StepInfo, TensorRow, Values
from jumar.recording.foreign.values import plain_row, statistics
from jumar.recording.hashing import digest, sum_of
from jumar.recording.schema import row_key
from jumar.recording.sketch import project

Array = npt.NDArray[Any]
Named = list[tuple[str, Any]]
"""Names and tensors: `input.0`, `grad_output.0`."""


class Describer(Protocol):
    """Makes rows of a framework's tensors."""

    values: Values
    """What is taken of each tensor. May be lowered while the run goes on."""

    def begin_step(self) -> None:
        """Forget the tensors of the step before."""

    def row(self, name: str, tensor: Any) -> TensorRow:
        """Return the row of a tensor as it is now."""

    def was_made(self, tensors: Sequence[Any], of: Sequence[Any]) -> None:
        """Take in the results of an operator: memory that none of its arguments has is new."""

    def stored(self, tensor: Any) -> Array:
        """Return a copy of the elements as recordings store them: bfloat16 and float8 as raw unsigned integers."""


def described(name: str, dtype: str, array: Array, raw: Array, values: Values) -> TensorRow:
    """Return the row of a tensor: `array` holds its elements as numbers, `raw` as they are stored."""
    figures: dict[str, Any] = {}
    if values == "hash":
        octets = np.frombuffer(np.ascontiguousarray(raw).tobytes(), np.uint8)
        figures["hash"] = digest(dtype, raw.shape, sum_of(octets))
    elif values != "none" and array.dtype.kind in "fcbiu":
        figures |= statistics(array)
        if values == "sketch":
            figures["sketch"] = project(array).astype("<f4").tobytes()
    return plain_row(name, raw.shape, dtype, **figures)


@dataclass(slots=True)
class Draft:
    """A row that is not finished."""

    kind: Kind
    phase: Phase
    path: str
    type_name: str
    name: str
    occurrence: int
    source: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    start_us: float = 0.0
    duration_us: float = 0.0
    inputs: list[TensorRow] = field(default_factory=list)
    outputs: list[TensorRow] = field(default_factory=list)
    is_wanted: bool = False
    """Whether whole tensors are kept."""

    @property
    def key(self) -> str:
        """The row's key."""
        return row_key(self.kind, self.phase, self.path, self.name, self.occurrence)


class _OwnWork:
    """Stops the clock, and keeps errors from the program. May be entered again inside itself."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    def __enter__(self) -> None:
        self._notebook.clock.pause()

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> bool:
        notebook = self._notebook
        notebook.clock.resume()
        if not isinstance(error, Exception):
            return False
        notebook.failure = notebook.failure or f"the observer failed: {type(error).__name__}: {error}"
        notebook.is_open = False
        return True


class Notebook:
    """Takes notes while `is_open`."""

    def __init__(self, describer: Describer, selection: Selection | None, *, keeps_tensors: bool) -> None:
        self.describer = describer
        self.clock = RunClock()
        self.is_open = False
        self.failure = ""
        """Why no more notes are taken; empty while they are."""
        self.keeps_tensors = keeps_tensors
        """Whether whole tensors of every row are kept; lowered when a budget asks for it."""
        self.rows: list[Draft] = []
        self.arrays: dict[str, dict[str, Array]] = {}
        self.info: dict[str, Any] = {}
        """Fields of `StepInfo`."""
        self._selection = selection
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._began = 0
        self._own_work = _OwnWork(self)

    def begin_step(self) -> None:
        """Forget the step before."""
        self.rows, self.arrays, self.info = [], {}, {}
        self._counts.clear()
        self.describer.begin_step()
        self._began = self.clock.now()

    def own_work(self) -> _OwnWork:
        """Do the observer's own work: the run's clock stands still, and an error in it ends the notes, not the run."""
        return self._own_work

    def now_us(self) -> float:
        """Return the time since the step began, in microseconds."""
        return (self.clock.now() - self._began) / 1e3

    def draft(self, kind: Kind, phase: Phase, path: str, type_name: str, name: str) -> Draft:
        """Begin a row."""
        place = (kind, phase, path, name)
        occurrence = self._counts[place]
        self._counts[place] += 1
        wanted = self.keeps_tensors
        if self._selection is not None:
            wanted = self._selection.wants(kind, phase, path, name, occurrence) or wanted
        return Draft(kind, phase, path, type_name, name, occurrence, start_us=self.now_us(), is_wanted=wanted)

    def see(self, draft: Draft, named: Iterable[tuple[str, Any]], *, outputs: bool = False) -> None:
        """Add tensors to a row, as they are now."""
        side = draft.outputs if outputs else draft.inputs
        for name, tensor in named:
            side.append(self.describer.row(name, tensor))
            if draft.is_wanted:
                self.arrays.setdefault(draft.key, {})[name] = self.describer.stored(tensor)

    def finish(self, draft: Draft) -> None:
        """Take a row in."""
        self.rows.append(draft)

    def step_info(self, not_kept: Iterable[str] = ()) -> StepInfo:
        """Return what is known of the step as a whole."""
        return StepInfo(**self.info, not_kept=tuple(not_kept))


def call_rows(drafts: Iterable[Draft], step: int, rank: int) -> list[CallRow]:
    """Return the rows of a step in the order in which they were finished."""
    return [
        CallRow(
            step=step,
            rank=rank,
            seq=seq,
            kind=draft.kind,
            phase=draft.phase,
            module_path=draft.path,
            module_type=draft.type_name,
            name=draft.name,
            occurrence=draft.occurrence,
            source=draft.source,
            arguments=json.dumps(draft.arguments, default=str) if draft.arguments else "",
            start_us=draft.start_us,
            duration_us=draft.duration_us,
            inputs=tuple(draft.inputs),
            outputs=tuple(draft.outputs),
        )
        for seq, draft in enumerate(drafts)
    ]
