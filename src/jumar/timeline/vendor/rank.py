"""`read_rank`: the files of one rank of a CANN profiler become one timeline.

One file is the source of each kind of events, in this order: the trace, the database, the table of kernels, the table
of tasks, the table of AI CPU kernels. The others describe those events further, or are checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jumar.base.errors import InputError
from jumar.timeline.model.allocations import Allocations
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, StepOrigin, StepWindow, Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.vendor import checks, extras, joins, links
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files import collectives, memory, settings, step_tables
from jumar.timeline.vendor.files.database import opened
from jumar.timeline.vendor.files.database_events import DatabaseReader
from jumar.timeline.vendor.files.kernels import Kernel, kernels
from jumar.timeline.vendor.files.statistics import Side, Sums, compare
from jumar.timeline.vendor.files.traces import TraceReader
from jumar.timeline.vendor.roles import Roles
from jumar.timeline.vendor.text.losses import Losses

_UNREADABLE = "cannot be read"


@dataclass(slots=True)
class RankReader:
    """Reads one source, file by file; what it finds is in its fields."""

    source: Source
    roles: Roles
    device: int = 0
    """Number of the device in files that name none."""
    builder: TimelineBuilder = field(default_factory=TimelineBuilder)
    losses: Losses = field(default_factory=Losses)
    facts: dict[str, str] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    steps: list[StepWindow] = field(default_factory=list)
    steps_from: StepOrigin = "none"
    allocations: list[Allocations] = field(default_factory=list)
    events_file: str = ""
    """Name of the file that the events are from."""
    rank: int | None = None
    columns: EventColumns = field(init=False)

    def __post_init__(self) -> None:
        """Make the columns that the files fill."""
        self.columns = EventColumns(self.builder)

    def read(self, on_progress: OnProgress | None = None) -> None:
        """Read every file. A file that the system refuses is a loss."""
        for part in (self._settings, lambda: self._trace(on_progress), self._database, self._kernels, self._tasks):
            self._guarded(part)
        for part in (self._collectives, self._memory, self._extras, self._steps, self._checks):
            self._guarded(part)

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except OSError as error:
            self.losses.say(str(error.filename or self.source.path), f"{_UNREADABLE} ({error.strerror or error}).")

    def _settings(self) -> None:
        for path in self.roles["settings"]:
            self.facts |= settings.facts(path, self.losses)
        names = [path.name for path in (*self.roles["settings"], *self.roles["databases"])]
        self.rank = settings.rank_of(names)

    def _trace(self, on_progress: OnProgress | None) -> None:
        reader = TraceReader(self.columns, self.losses, self.device)
        for path in self.roles["trace"]:
            reader.read(path, on_progress)
        reader.finish()
        links.set_links(reader, self.columns, self.roles.name("trace"), self.losses)
        self.facts |= reader.facts
        self.facts |= {f"overlap {name}(us)": f"{time / 1000:.3f}" for name, time in reader.analysis_ns.items()}
        if len(self.columns):
            self.events_file = self.roles.name("trace")

    def _database(self) -> None:
        for path in self.roles["databases"]:
            with opened(path, self.losses) as database:
                reader = DatabaseReader(database, self.columns, self.losses)
                self.facts |= reader.facts()
                if self.events_file:
                    self._against_database(path.name, reader.sums())
                else:
                    reader.events()
                if not self.roles["memory"]:
                    reader.memory()
                if not self.steps:
                    self.steps = reader.steps()
                    self.steps_from = "vendor" if self.steps else "none"
        if len(self.columns) and not self.events_file:
            self.events_file = self.roles.name("databases")

    def _against_database(self, name: str, sums: Sums) -> None:
        if sums:
            names = {self.columns.names[number] for number in set(self.columns.name)} & set(sums)
            mine = checks.by_name(self.columns, names)
            compare(Side(self.events_file, mine), Side(name, sums), "kernel", self.losses)

    def _kernels(self) -> None:
        self.kernels = list(kernels(self.roles["kernels"], self.columns, self.losses, self.device))
        if not self.kernels:
            return
        rows = joins.DeviceRows(self.columns)
        name = self.roles.name("kernels")
        if not len(rows):
            joins.add_kernels(self.columns, self.kernels)
            self.events_file = self.events_file or name
            return
        left = []
        num_long = 0
        for kernel in self.kernels:
            row = rows.take(kernel)
            if row is None:
                left.append(kernel)
                continue
            num_long += abs(self.columns.duration_ns[row] - kernel.duration_ns) > 1
            rows.describe(row, kernel)
        checks.kernels_left(self.columns, left, num_long, (self.events_file, name), self.losses)

    def _tasks(self) -> None:
        """Take the table of tasks where nothing else has the device's events."""
        if len(joins.DeviceRows(self.columns)):
            return
        found = list(kernels(self.roles["tasks"], self.columns, self.losses, self.device))
        joins.add_kernels(self.columns, found)
        if found:
            self.events_file = self.events_file or self.roles.name("tasks")

    def _collectives(self) -> None:
        """Describe the collectives by `communication.json`, or by `analysis.db` where that is the one there."""
        for role, read in (("communication", collectives.collectives), ("analyses", collectives.stored_collectives)):
            for path in self.roles[role]:
                self._describe(path.name, read(path, self.losses))
            if self.roles[role]:
                break
        for path in self.roles["matrix"]:
            self.facts[path.stem] = collectives.links(path, self.losses)

    def _describe(self, name: str, found: list[collectives.Collective]) -> None:
        left = joins.describe_collectives(self.columns, found)
        if left:
            time = sum(collective.duration_ns for collective in left) / 1000
            events = self.events_file or "the folder"
            self.losses.disagree(f"{name} has {len(left)} collectives of {time:.3f} us that no event of {events} is.")

    def _memory(self) -> None:
        memory.read_records(self.roles["memory"], self.builder, self.losses, self.device)
        for path in self.roles["allocations"]:
            self.allocations += memory.operator_allocations(path, self.losses)

    def _extras(self) -> None:
        extras.read_queues(self.roles["queues"], self.columns, self.losses)
        self.facts |= extras.ai_cpu(self.roles["ai_cpu"], self.columns, self.losses, self.device)
        self.facts |= extras.caches(self.roles["caches"], self.losses)

    def _steps(self) -> None:
        marks = [
            (name, start, start + duration)
            for kind, number, start, duration in zip(
                self.columns.kind, self.columns.name, self.columns.start_ns, self.columns.duration_ns, strict=True
            )
            if kind == Kind.STEP and (name := self.columns.names[number])
        ]
        if marks:
            self.steps, self.steps_from = extras.marked_steps(marks), "marks"
        elif not self.steps:
            self.steps = extras.steps_of_kernels(self.kernels)
            self.steps_from = "vendor" if self.steps else "none"
        found = step_tables.iterations(self.roles["iterations"], self.losses)
        if found and not self.steps:
            name = self.roles.name("iterations")
            self.steps = extras.take_iterations(self.columns, found, name, self.losses)
            self.steps_from = "vendor" if self.steps else "none"

    def _checks(self) -> None:
        checks.operators(self.roles, self.kernels, self.losses)
        checks.calls(self.roles, self.columns, self.events_file, self.losses)
        checks.host(self.roles, self.columns, self.events_file, self.losses)
        self.facts |= checks.shares(self.roles, self.kernels, self.losses)

    def timeline(self, *, format_name: str, absent: Mapping[str, str], device: str = "npu") -> Timeline:
        """Return the timeline. Raises InputError where nothing was read."""
        if not (len(self.columns) or self.steps or self.builder.has_counters or self.allocations):
            reasons = " ".join(self.losses.sentences()[:3]) or "Its files hold no events."
            raise InputError(f"{self.source.path} holds no events that can be read: {reasons}")
        self.columns.deliver()
        origin = self.builder.origin_ns
        rank = self.rank if self.rank is not None else self.source.rank
        rank = int(self.facts.get("rank", -1)) if rank is None and self.facts.get("rank", "").isdigit() else rank
        return self.builder.build(
            steps=self.steps, steps_from=self.steps_from, source=str(self.source.path), format=format_name,
            rank=rank or 0, num_ranks=settings.world_size(self.facts),
            device=device if any(lane.side == "device" for lane in self.columns.lanes) else "cpu",
            device_name=self.facts.get("device_name") or self.facts.get("soc", ""), facts=self.facts,
            allocations=[extras.since(found, origin) for found in self.allocations], lost=self.losses.sentences(),
            absent=absent,
        )  # fmt: skip


def read_rank(
    source: Source, format_name: str, absent: Mapping[str, str], on_progress: OnProgress | None = None, device: int = 0
) -> Timeline:
    """Return the events of one rank. Raises InputError where nothing is left.

    A lone file of an unknown name is a trace: `prof.export_chrome_trace` lets the user name it.
    """
    roles = Roles.of(source.files)
    reader = RankReader(source, roles if roles.files else Roles({"trace": source.files}), device)
    reader.read(on_progress)
    has = {"memory": reader.builder.has_counters or bool(reader.allocations), "steps": bool(reader.steps)}
    return reader.timeline(format_name=format_name, absent=checks.absent(reader.columns, has, absent))
