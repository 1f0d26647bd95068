"""`gather`: all operators of plogs, how often each ran, and which were compiled again after the first step.

AscendCL prints one line for each call of `aclopCompile`, and behind it one of `Match op inputs failed`, `Match op type
failed` or `To compile op` where it has no compiled operator for it. Lines are read in blocks; of a text that occurs
again only the count is kept.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumar.advise.doctor.logs.engine.folders import LogFile, find_logs
from jumar.advise.doctor.opinfo.description import Description, Tensor, parse
from jumar.advise.doctor.opinfo.reading import blocks_of
from jumar.advise.doctor.opinfo.steps import first_step_end
from jumar.base.errors import InputError
from jumar.base.lazy import Shown

MARK = b"aclopCompile::aclOp"
_TYPE = b"OpType: "
_MISSES = (b"Match op inputs failed", b"Match op type failed", b"To compile op", b"Match op inputs/type failed")
_LINE = re.compile(b"|".join(map(re.escape, (MARK, *_MISSES))))
_PROCESS = re.compile(rb"\b[A-Z][A-Z0-9_]*\((\d+)[,)]")
MOST_TEXTS = 200_000
"""Different descriptions that are kept; further ones are counted by type only."""
_MOST_CHANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One description of an operator, and how often it ran."""

    text: str
    """As printed behind `OpType: `."""
    count: int
    description: Description


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorType:
    """All calls of one type."""

    name: str
    num_calls: int
    variants: tuple[Variant, ...]
    """In the order of their first appearance."""
    num_compiled: int

    @property
    def most_frequent(self) -> tuple[Variant, ...]:
        """The variants, the most frequent first."""
        return tuple(sorted(self.variants, key=lambda one: -one.count))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Dtypes of its tensors, in the order of their first appearance."""
        return _each_once(self.variants, lambda tensor: tensor.dtype)

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of its tensors."""
        return _each_once(self.variants, lambda tensor: tensor.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """An operator that was compiled after the first step, or again where the first step is not known."""

    type: str
    num_compiled: int
    changes: tuple[str, ...]
    """What changed: `input 0: 8x128 to 8x131`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Shown):
    """What the plogs say."""

    types: tuple[OperatorType, ...]
    """In the order of their first appearance."""
    later: tuple[Later, ...]
    """The most often compiled first."""
    num_calls: int
    num_processes: int
    num_steps_known: int
    """Processes whose first step could be told by its repetition."""
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()

    def calls_of(self, name: str) -> int:
        """Return how often operators of a type ran."""
        return sum(one.num_calls for one in self.types if one.name == name)


def gather(paths: Sequence[str | Path], *, on_progress: Callable[[int], None] | None = None) -> Gathered:
    """Read plogs, or all of folders. Raises InputError for what cannot be read, and where no line is of an operator."""
    found = find_logs(paths)
    reading = _Reading()
    reading.notes += found.notes
    for file in found.files:
        reading.read(file)
        if on_progress is not None:
            on_progress(file.size_bytes)
    if not reading.num_calls:
        raise InputError(
            f"no line of {', '.join(map(str, paths))} has {MARK.decode()} with its OpType. Set "
            "ASCEND_GLOBAL_LOG_LEVEL=1 and run again; the plogs are then in ~/ascend/log/debug/plog. Operators "
            "that are called by aclnn are not there."
        )
    return reading.result(tuple(file.path for file in found.files))


@dataclass(slots=True)
class _Process:
    """The calls of one process in their order."""

    types: array[int] = field(default_factory=lambda: array("i"))
    compiled: list[tuple[int, int, int]] = field(default_factory=list)
    """Index of the call, its text, and the text of the last call of the same kind (-1: none)."""
    last_text: int = -1
    before: int = -1
    is_waiting: bool = False
    """Whether the last call was not yet said to be compiled."""


class _Reading:
    """State of reading all files."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.notes: list[str] = []
        self._types: dict[str, int] = {}
        self._texts: dict[bytes, int] = {}
        self._counts: list[int] = []
        self._parsed: list[Description] = []
        self._of_type: Counter[int] = Counter()
        self._last_of_kind: dict[tuple[str, tuple[object, ...]], int] = {}
        self._processes: dict[str, _Process] = {}
        self._misses = 0
        self._new: dict[str, list[tuple[int, int, int]]] = {}
        self._lost = 0

    def read(self, file: LogFile) -> None:
        for path, data in blocks_of(file, self.notes):
            for line in _lines(data):
                self._take(line, path)

    def _take(self, line: bytes, file: Path) -> None:
        found = _PROCESS.search(line)
        name = found[1].decode() if found else str(file)
        process = self._processes.setdefault(name, _Process())
        if MARK in line and _TYPE in line:
            self._call(name, process, line.split(_TYPE)[1].rstrip(b"\r"))
        elif process.is_waiting and any(miss in line for miss in _MISSES):
            process.is_waiting = False
            self._misses += 1
            process.compiled.append((len(process.types) - 1, process.last_text, process.before))

    def _call(self, name: str, process: _Process, text: bytes) -> None:
        self.num_calls += 1
        number, is_new = self._number_of(text)
        type_name = text.partition(b",")[0].decode("utf-8", "replace").strip()
        type_number = self._types.setdefault(type_name, len(self._types))
        self._of_type[type_number] += 1
        process.types.append(type_number)
        process.last_text, process.before, process.is_waiting = number, -1, True
        if number < 0:
            return
        self._counts[number] += 1
        kind = (name, self._parsed[number].kind)
        process.before = self._last_of_kind.get(kind, -1)
        self._last_of_kind[kind] = number
        if is_new:
            self._new.setdefault(name, []).append((len(process.types) - 1, number, process.before))

    def _number_of(self, text: bytes) -> tuple[int, bool]:
        """Return the number of a description, and whether it is new; -1 for one too many."""
        number = self._texts.get(text)
        if number is not None:
            return number, False
        if len(self._texts) >= MOST_TEXTS:
            self._lost += 1
            return -1, False
        number = self._texts[text] = len(self._texts)
        self._counts.append(0)
        self._parsed.append(parse(text.decode("utf-8", "replace")))
        return number, True

    def result(self, files: tuple[Path, ...]) -> Gathered:
        later, known = self._later()
        texts = [text.decode("utf-8", "replace") for text in self._texts]
        variants: dict[str, list[Variant]] = {}
        for text, count, parsed in zip(texts, self._counts, self._parsed, strict=True):
            variants.setdefault(parsed.type, []).append(Variant(text=text, count=count, description=parsed))
        compiled: Counter[int] = Counter()
        for process in self._processes.values():
            compiled.update(process.types[index] for index, _, _ in self._compiled(process))
        types = tuple(
            OperatorType(
                name=name,
                num_calls=self._of_type[number],
                variants=tuple(variants.get(name, ())),
                num_compiled=compiled[number],
            )
            for name, number in self._types.items()
        )
        processes = sum(bool(process.types) for process in self._processes.values())
        return Gathered(
            types=types, later=later, num_calls=self.num_calls, num_processes=processes, num_steps_known=known,
            files=files, notes=(*self._notes(processes, known), *self.notes),
        )  # fmt: skip

    def _compiled(self, process: _Process) -> list[tuple[int, int, int]]:
        """Return the calls that were compiled: as the log says, else those with a description that is new."""
        if self._misses:
            return process.compiled
        name = next(name for name, one in self._processes.items() if one is process)
        return self._new.get(name, [])

    def _later(self) -> tuple[tuple[Later, ...], int]:
        counts: Counter[str] = Counter()
        changes: dict[str, dict[str, None]] = {}
        known = 0
        for process in self._processes.values():
            end = first_step_end(process.types)
            known += end is not None
            for index, number, before in self._compiled(process):
                is_later = index >= end if end is not None else before >= 0
                if number < 0 or not is_later:
                    continue
                parsed = self._parsed[number]
                counts[parsed.type] += 1
                told = changes.setdefault(parsed.type, {})
                for change in _changes(None if before < 0 else self._parsed[before], parsed):
                    told.setdefault(change)
        return tuple(
            Later(type=name, num_compiled=count, changes=tuple(changes[name])[:_MOST_CHANGES])
            for name, count in counts.most_common()
        ), known

    def _notes(self, processes: int, known: int) -> Iterator[str]:
        if known < processes:
            yield (
                f"In {processes - known} of {processes} processes no steps repeat: where the first one "
                "ends is not known. Operators are counted there that were compiled again with other shapes in any step."
            )
        if not self._misses:
            yield "No line says that an operator was compiled: each new description counts as compiled."
        if any(parsed.is_cut for parsed in self._parsed):
            yield "Some lines are cut by the log: what is behind their end is not counted."
        if self._lost:
            yield f"More than {MOST_TEXTS:,} different descriptions: {self._lost:,} calls are counted by type only."


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a block that say something of operators."""
    end = 0
    for found in _LINE.finditer(data):
        if found.start() < end:
            continue
        start = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        yield data[start:end]


def _changes(before: Description | None, now: Description) -> Iterator[str]:
    if before is None:
        yield "new with these dtypes, formats and attributes"
        return
    for old, new in zip(before.tensors, now.tensors, strict=False):
        if old.shape is not None and new.shape is not None and old.shape != new.shape:
            yield f"{new.name}: {_dims(old.shape)} to {_dims(new.shape)}"


def _dims(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _each_once(variants: Sequence[Variant], of: Callable[[Tensor], str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(of(tensor) for one in variants for tensor in one.description.tensors))
