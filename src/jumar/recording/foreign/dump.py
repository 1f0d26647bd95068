"""`Dump`: a dump of another tool in the form of a recording. `DumpFormat`: how a format is recognised and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import JumarError, RecordingError
from jumar.recording.documents import whole_text
from jumar.recording.reader import losses_of
from jumar.recording.schema import CallRow, RunEnd, RunInfo, Values

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray]


@contextmanager
def damage_told(path: Path, kind: str) -> Iterator[None]:
    """Raise RecordingError, in one sentence, for whatever a format's reader raises over a file of another form.

    A list where a table belongs, or a number that is too large, shows only where a reader uses it.
    """
    try:
        yield
    except (JumarError, ModuleNotFoundError):  # a package that is not installed is no damage
        raise
    except Exception as error:  # which one depends on what stands where
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:100]
        raise RecordingError(f"{path} is not what {kind} is ({reason}); dump it again.") from error


@dataclass(frozen=True, slots=True)
class Part:
    """One step of one rank. Both functions may raise RecordingError.

    `rows` returns the calls in their order; `tensors` the whole tensors of one of them by tensor name, and is None
    where the dump has no tensors.
    """

    rows: Callable[[], list[CallRow]]
    tensors: Callable[[CallRow], Arrays] | None = None


@dataclass(frozen=True, slots=True)
class DumpFormat:
    """A format of dumps that Jumar reads. Each module of `formats` has one as its `FORMAT`.

    Another distribution adds one with an entry point of the group `jumar.dump_formats` that names a `DumpFormat`.
    It is asked after Jumar's own formats.
    """

    name: str
    """As people know it, for error messages: `an HDF5 file of torch.utils.dumper`."""
    recognises: Callable[[Path], bool]
    """Tells whether a file or folder is of this format, from its name, its first bytes or the files in it.

    It raises nothing, and reads no more than it needs to decide."""
    read: Callable[[Path], Dump]
    """Returns the dump. Raises RecordingError, in one sentence, for a file that is cut short, damaged or holds code.

    It runs nothing that is in a file."""


class Dump:
    """A foreign dump with the interface of `jumar.recording.Recording`. Rows are read when they are asked for."""

    def __init__(
        self,
        path: Path,
        kind: str,
        parts: Mapping[tuple[int, int], Part],
        *,
        warnings: Iterable[str] = (),
        device: str = "",
        framework: str = "torch",
    ) -> None:
        """Take the parts by (step, rank); `kind` names the format for people, `framework` whose names the rows have."""
        self.path = path
        self.kind = kind
        self.warnings = list(warnings)
        self.ends: Mapping[int, RunEnd] = {}
        self.original_names: Mapping[str, str] = {}
        """Of a checkpoint, by the name that its tensors have here: the name in the file, where that is another."""
        self._parts = dict(parts)
        values: Values = "tensors" if self.has_tensors() else "stats"
        ranks = len(self.ranks) or 1
        self.info = RunInfo(
            framework=framework, device=device, values=values, num_ranks=ranks, environment={"format": kind}
        )
        self._rows = lru_cache(maxsize=4)(self._read)

    @property
    def ranks(self) -> list[int]:
        """Ranks in order."""
        return sorted({rank for _, rank in self._parts})

    def steps(self, rank: int = 0) -> list[int]:
        """Steps of a rank in order."""
        return sorted(step for step, of in self._parts if of == rank)

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Calls of a step in order. Raises RecordingError for a step that is not there or cannot be read."""
        if (step, rank) not in self._parts:
            raise RecordingError(f"{self.path} has no step {step} of rank {rank}; it has {self.steps(rank)}.")
        return list(self._rows(step, rank))

    def _read(self, step: int, rank: int) -> tuple[CallRow, ...]:
        with damage_told(self.path, self.kind):
            return tuple(numbered(self._parts[step, rank].rows(), step, rank))

    def losses(self, rank: int = 0) -> list[tuple[int, float]]:
        """Losses, where the format has any."""
        return losses_of((step, self._rows(step, rank)) for step in self.steps(rank))

    def has_tensors(self) -> bool:
        """Whether whole tensors are there."""
        return any(part.tensors is not None for part in self._parts.values())

    def tensors(self, row: CallRow) -> Arrays:
        """Whole tensors of a call by name. Raises RecordingError where there are none or they cannot be read."""
        part = self._parts.get((row.step, row.rank))
        if part is None or part.tensors is None:
            raise RecordingError(f"{self.path} has no tensors of {row.key}. Dump it again with tensors.")
        with damage_told(self.path, self.kind):
            return part.tensors(row)


def numbered(rows: Iterable[CallRow], step: int, rank: int) -> list[CallRow]:
    """Return the rows with step, rank and position set, and the occurrence of those that have none (-1)."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    result = []
    for seq, row in enumerate(rows):
        same = (row.kind, row.phase, row.module_path, row.name)
        occurrence = seen[same] if row.occurrence < 0 else row.occurrence
        result.append(replace(row, step=step, rank=rank, seq=seq, occurrence=occurrence, **_shown(row)))
        seen[same] = max(seen[same], occurrence) + 1
    return result


def _shown(row: CallRow) -> dict[str, Any]:
    """Return what to change of a row so that it can be shown: names in a pickle or an HDF5 file may be any bytes."""
    texts = {name: getattr(row, name) for name in ("name", "module_path", "module_type", "source")}
    changed: dict[str, Any] = {name: whole for name, text in texts.items() if (whole := whole_text(text)) != text}
    for side in ("inputs", "outputs"):
        tensors = getattr(row, side)
        if any(whole_text(one.name) != one.name for one in tensors):
            changed[side] = tuple(replace(one, name=whole_text(one.name)) for one in tensors)
    return changed
