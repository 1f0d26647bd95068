"""From a recording to tasks: distinct operator calls, with how often and where each happens.

`Selection` says which operators are tuned when not all are: the vendor's `--tune_ops_file`.

    {"tune_ops_name": ["layer1.0.conv1/convolution_OPAT_0"], "tune_ops_type": ["convolution", "Conv2D"]}

Whole words; an operator is meant when its name or its type is listed (the union of both keys). A name is the one
that results print, or the module path it begins with; a type is PyTorch's (`convolution`, `aten::addmm`) or the
vendor's (`Conv2D`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jumar.base.errors import InputError, RecordingError
from jumar.base.findings import Json, Location
from jumar.operators import draws, has
from jumar.recording import CallRow, Recording
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task

_PROBABILITIES = ("dropout_p", "dropout")


def reason_not_tuned(operator: str, arguments: Mapping[str, Json]) -> str:
    """Return why a call is no task, as the end of the sentence "… is not tuned: "; empty when it is one."""
    if not operator.startswith("aten::") or not has(operator, "tuned"):
        return "it is not among the operators that are tuned so far"
    if draws(operator, arguments):
        name = next((name for name in _PROBABILITIES if arguments.get(name)), "")
        return f"it draws random numbers ({name} is {arguments[name]})" if name else "it draws random numbers"
    return ""


@dataclass(slots=True, kw_only=True)
class TaskUse:
    """One task and its calls."""

    task: Task
    name: str = ""
    """The vendor's `op_name`: `layer1.0.conv1/convolution_OPAT_0`."""
    num_calls: int = 0
    recorded_us: float = 0.0
    """Host time of all its recorded calls: what decides which task comes first."""
    module_paths: list[str] = field(default_factory=list)
    """Empty for an operator that was described without its calls (`torch.npu.set_aoe`)."""
    phases: list[str] = field(default_factory=list)

    @property
    def where(self) -> Location:
        """Where findings on the task point: its operator, in the first module that calls it where one is known."""
        return Location(module_path=next(iter(self.module_paths), None), operator=self.task.operator)

    def count(self, row: CallRow) -> None:
        """Add one call."""
        self.num_calls += 1
        self.recorded_us += row.duration_us
        for value, known in ((row.module_path, self.module_paths), (row.phase, self.phases)):
            if value not in known:
                known.append(value)

    def to_json(self) -> dict[str, Json]:
        """Return the task and its calls as JSON values."""
        return {
            "name": self.name,
            "key": self.task.key,
            "task": self.task.to_json(),
            "num_calls": self.num_calls,
            "recorded_us": self.recorded_us,
            "module_paths": list(self.module_paths),
            "phases": list(self.phases),
        }


@dataclass(slots=True, kw_only=True)
class NotTuned:
    """An operator whose calls are no tasks."""

    operator: str
    reason: str
    num_calls: int = 0
    recorded_us: float = 0.0


LeftOut = dict[tuple[str, str], NotTuned]
"""By operator and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Tasks, the longest recorded time first, and the operators that are left out."""

    tasks: Sequence[TaskUse]
    not_tuned: Sequence[NotTuned]
    num_calls: int
    notes: Sequence[str] = ()
    """Sentences for the reader of the result."""


def extract(recording: Recording, rank: int | None = None) -> Extraction:
    """Return the tasks of one rank (the lowest when None) over all recorded steps.

    Raises RecordingError for a rank that was not recorded.
    """
    if rank is not None and rank not in recording.ranks:
        known = ", ".join(map(str, recording.ranks)) or "none"
        raise RecordingError(f"{recording.path} has no rank {rank}; it has {known}. Choose another --rank.")
    if rank is None:
        rank = min(recording.ranks, default=0)
    uses: dict[str, TaskUse] = {}
    left_out: LeftOut = {}
    seen: dict[tuple[object, ...], TaskUse | NotTuned] = {}
    num_calls = 0
    weights = weights_of(recording, rank)
    for row in recording.iter_rows(rank):
        if row.kind != "op":
            continue
        num_calls += 1
        constants = frozenset(constant_names(row, weights))
        look = (*_look(row), constants)
        if look not in seen:
            seen[look] = _classify(row, constants, uses, left_out)
        group = seen[look]
        if isinstance(group, TaskUse):
            group.count(row)
        else:
            group.num_calls += 1
            group.recorded_us += row.duration_us
    tasks = sorted(uses.values(), key=lambda use: (-use.recorded_us, use.task.key))
    name_tasks(tasks)
    return Extraction(
        tasks=tasks, not_tuned=sorted(left_out.values(), key=lambda one: -one.recorded_us), num_calls=num_calls
    )


def _look(row: CallRow) -> tuple[object, ...]:
    """Return what is cheap to compare and decides the task: thousands of rows share a few looks."""
    tensors = tuple((tensor.name, tensor.shape, tensor.dtype, tensor.stride) for tensor in row.inputs)
    return row.name, row.arguments, tensors


def _classify(
    row: CallRow, constants: frozenset[str], uses: dict[str, TaskUse], left_out: LeftOut
) -> TaskUse | NotTuned:
    from jumar.tune.graph.operators import task_of

    return classify(row.name, lambda: task_of(row, constants), uses, left_out)


def classify(
    operator: str, make: Callable[[], Task], uses: dict[str, TaskUse], left_out: LeftOut
) -> TaskUse | NotTuned:
    """Return where a call of `operator` counts: a task's uses, made where it is a new one, or what is left out.

    `make` returns its task and may raise TuneError; it is not called for an operator that is never tuned.
    """
    reason = reason_not_tuned(operator, {})
    if not reason:
        try:
            task = make()
        except TuneError as error:
            reason = str(error)
        else:
            reason = reason_not_tuned(operator, task.arguments)
            if not reason:
                return uses.setdefault(task.key, TaskUse(task=task))
    return left_out.setdefault((operator, reason), NotTuned(operator=operator, reason=reason))


def name_tasks(tasks: Sequence[TaskUse]) -> None:
    """Name each task after its first module and operator, numbered where several share them."""
    counts: dict[str, int] = {}
    for use in tasks:
        stem = f"{next(iter(use.module_paths), '') or 'model'}/{use.task.base}"
        number = counts.get(stem, 0)
        counts[stem] = number + 1
        use.name = f"{stem}_OPAT_{number}"


Weights = frozenset[tuple[int, int]]
"""(step, number of the storage within it)."""


def weights_of(recording: Recording, rank: int) -> Weights:
    """Return the memory of the weights; empty for a recording of training, or without rows of modules."""
    if "module" not in recording.info.levels:
        return frozenset()
    read: dict[int, set[int]] = defaultdict(set)
    made: dict[int, set[int]] = defaultdict(set)
    called: set[int] = set()
    for row in recording.iter_rows(rank):
        if row.phase != "forward" or row.kind in {"loss", "optimizer", "parameter"}:
            return frozenset()
        if row.kind == "module":
            called.add(row.step)
            made[row.step].update(tensor.storage for tensor in row.inputs)
        elif row.module_path:
            given = {tensor.storage for tensor in row.inputs}
            read[row.step] |= given
            made[row.step].update(one.storage for one in row.outputs if one.storage not in given or _writes(row))
    return frozenset((step, storage) for step in called for storage in read[step] - made[step])


def _writes(row: CallRow) -> bool:
    """Tell whether an operator whose result is its argument's memory writes to it; others return a view."""
    return row.name.partition(".")[0].endswith("_")


def constant_names(row: CallRow, weights: Weights) -> Iterator[str]:
    """Yield the names of the tensors of an operator's call that are weights."""
    for tensor in row.inputs:
        if (row.step, tensor.storage) in weights:
            yield tensor.name


KEYS = ("tune_ops_name", "tune_ops_type")
REASON = "it is not among the operators that were asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The names and types that are meant."""

    names: frozenset[str]
    types: frozenset[str]
    source: str
    """The file they come from."""

    def means(self, use: TaskUse) -> bool:
        """Tell whether a task is meant."""
        return bool(self.types & _types(use) or self.names & _names(use))

    def unknown(self, uses: Sequence[TaskUse]) -> list[str]:
        """Return the names and types that none of these tasks has."""
        known_names = set[str]().union(*map(_names, uses))
        known_types = set[str]().union(*map(_types, uses))
        return sorted((self.names - known_names) | (self.types - known_types))


def _names(use: TaskUse) -> set[str]:
    return {use.name, *use.module_paths}


def _types(use: TaskUse) -> set[str]:
    operator = use.task.operator
    return {operator, operator.partition(".")[0], use.task.base, *vendor_types(operator)}


def read_selection(path: Path) -> Selection:
    """Read a `--tune-ops-file`. Raises InputError, which says what must be there."""
    form = '{"tune_ops_name": [...], "tune_ops_type": [...]}'
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. It must be a file that holds {form}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must hold JSON, {form}; {error}.") from error
    lists = {key: found.get(key, []) for key in KEYS} if isinstance(found, dict) else {}
    fine = all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in lists.values())
    if not lists or not fine or not any(lists.values()):
        raise InputError(f"{path} must hold {form} with at least one name or type.")
    if unknown := sorted(set(found) - set(KEYS)):
        raise InputError(f"{path} may hold {' and '.join(KEYS)}; it also has {', '.join(unknown)}. Leave that out.")
    return Selection(names=frozenset(lists["tune_ops_name"]), types=frozenset(lists["tune_ops_type"]), source=str(path))


def select(extraction: Extraction, selection: Selection) -> Extraction:
    """Return what is meant of the tasks; the others are listed as not tuned. Raises InputError when none is."""
    chosen = [use for use in extraction.tasks if selection.means(use)]
    if not chosen:
        known = ", ".join(sorted({use.task.base for use in extraction.tasks})) or "none"
        raise InputError(f"{selection.source} names no operator that can be tuned here; types there are: {known}.")
    others = [
        NotTuned(operator=use.name, reason=REASON, num_calls=use.num_calls, recorded_us=use.recorded_us)
        for use in extraction.tasks
        if not selection.means(use)
    ]
    unknown = selection.unknown(extraction.tasks)
    note = f"{selection.source} names {', '.join(unknown)}, which no operator here that can be tuned is."
    notes = [*extraction.notes, *([note] if unknown else [])]
    return replace(extraction, tasks=chosen, not_tuned=[*extraction.not_tuned, *others], notes=notes)


def vendor_types(operator: str) -> frozenset[str]:
    """Return the vendor's kernel types that compute an aten operator, of both routes: `Conv2D`, `MatMulV2`."""
    from jumar.soc.estimate.classes import classify

    known = classify(operator)
    return frozenset(kind for is_aclnn in (False, True) for kind in known.kernel_types(is_aclnn=is_aclnn))
