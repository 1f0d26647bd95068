"""Loads the whole tensors of compared calls: `Load` for pairs of calls, `Loader` for the tensors of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jumar.base.errors import RecordingError
from jumar.comparison.model.calls import Call
from jumar.recording import CallRow, Recording, TensorRow
from jumar.recording.reader import RecordingLike

if TYPE_CHECKING:
    import numpy as np

    from jumar.comparison.measure.arrays import Stored

Loader = Callable[[TensorRow], "np.ndarray | Stored | None"]
"""Loads one tensor; None where it was not recorded whole."""

Loaders = tuple[Loader, Loader] | None
"""The loaders of both sides; None where no side recorded whole tensors."""

Load = Callable[[Call, Call], tuple[Loader, Loader]] | None
"""Gives the loaders of a pair of calls; None where no side recorded whole tensors."""


def no_tensor(_tensor: TensorRow) -> None:
    """Load nothing: the loader of a recording without whole tensors."""


class TensorReader:
    """Finds the tensors of one row at a time; those of a recording stay in their file until they are compared."""

    def __init__(self, recording: RecordingLike) -> None:
        self._recording = recording
        self._key: tuple[int, int, str] | None = None
        self._tensors: Mapping[str, np.ndarray | Stored] = {}

    def of(self, row: CallRow) -> Loader:
        """Return what loads one tensor of `row`, or None for one that was not recorded."""

        def load(tensor: TensorRow) -> np.ndarray | Stored | None:
            key = (row.step, row.rank, row.key)
            if self._key != key:
                self._key = key
                try:
                    self._tensors = self._of_row(row)
                except RecordingError:
                    self._tensors = {}
            return self._tensors.get(tensor.name)

        return load

    def _of_row(self, row: CallRow) -> Mapping[str, np.ndarray | Stored]:
        if isinstance(self._recording, Recording):
            return self._recording.stored(row)
        return self._recording.tensors(row)


def tensor_loader(reference: RecordingLike, target: RecordingLike) -> Load:
    """Return what loads the whole tensors of a pair of calls."""
    of_reference, of_target = (TensorReader(side) if side.has_tensors() else None for side in (reference, target))
    if of_reference is None and of_target is None:
        return None
    return lambda one, other: (
        _of(of_reference, one) if of_reference is not None else no_tensor,
        _of(of_target, other) if of_target is not None else no_tensor,
    )


def _of(reader: TensorReader, call: Call) -> Loader:
    """Return what loads a tensor of `call`; one that stands for a region has tensors of several rows."""
    if not call.homes:
        return reader.of(call.row)
    return lambda tensor: reader.of(call.row_of(tensor))(tensor)
