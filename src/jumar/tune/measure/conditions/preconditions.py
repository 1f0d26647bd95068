"""What a tuning run finds around it, and what it needs of each.

Disk, memory, cores, other programs that compute, profilers that watch this process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base import host
from jumar.base.errors import OutputError
from jumar.base.home import home_folder
from jumar.base.text import GIB, size_text
from jumar.tune.measure.conditions.settings import Lanes, TuneEnvironment
from jumar.tune.model.errors import TuneError
from jumar.tune.model.process import temporary_folder

LEAST_SHARE = 0.2
"""A process that takes less of one core than this is not named."""
_SWITCHES = {
    "PROFILING_MODE": "the vendor's profiler (PROFILING_MODE)",
    "GE_PROFILING_TO_STD_OUT": "the vendor's graph profiler (GE_PROFILING_TO_STD_OUT)",
    "KINETO_USE_DAEMON": "PyTorch's profiling daemon (KINETO_USE_DAEMON)",
}
_OFF = {"", "0", "false", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A process that computes and does not belong to this run."""

    pid: int
    name: str
    share: float
    """Of one core, over the time it was watched: 2.0 is two cores."""


def computing(proc: Path, watch_s: float) -> tuple[Neighbour, ...]:
    """Return the processes that took at least `LEAST_SHARE` of a core, busiest first; not this one's family."""
    before, start = _readings(proc), time.monotonic()
    time.sleep(watch_s)
    after, elapsed = _readings(proc), max(time.monotonic() - start, 1e-3)
    family = _family(after)
    ticks_per_s = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    found = []
    for pid, (name, _, ticks) in after.items():
        if pid in family or pid not in before:
            continue
        share = (ticks - before[pid][2]) / ticks_per_s / elapsed
        if share >= LEAST_SHARE:
            found.append(Neighbour(pid=pid, name=name, share=share))
    return tuple(sorted(found, key=lambda one: -one.share))


_Reading = tuple[str, int, int]
"""Name, parent, processor ticks so far."""


def _readings(proc: Path) -> dict[int, _Reading]:
    found = {}
    try:
        folders = [entry for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return {}
    for folder in folders:
        reading = _reading(folder / "stat")
        if reading is not None:
            found[int(folder.name)] = reading
    return found


def _reading(path: Path) -> _Reading | None:
    """Read `proc(5)` stat: the name is in brackets and may hold anything; utime and stime are fields 14 and 15."""
    try:
        text = path.read_text("utf-8", errors="replace")
        start, end = text.index("("), text.rindex(")")
        fields = text[end + 2 :].split()
        return text[start + 1 : end], int(fields[1]), int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):  # it ended meanwhile
        return None


def _family(readings: Mapping[int, _Reading]) -> set[int]:
    """Return this process, those it descends from, and those that descend from it."""
    family, parent = {os.getpid()}, os.getpid()
    children: dict[int, list[int]] = {}
    for pid, (_, above, _) in readings.items():
        children.setdefault(above, []).append(pid)
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        family.update(below)
        waiting += below
    while parent in readings and parent != readings[parent][1]:
        parent = readings[parent][1]
        family.add(parent)
    return family


def profilers(environ: Mapping[str, str], proc: Path) -> tuple[str, ...]:
    """Return what watches this process, in words; empty when nothing is seen to."""
    found = [words for name, words in _SWITCHES.items() if environ.get(name, "").strip().lower() not in _OFF]
    if sys.getprofile() is not None:
        found.append("a Python profiler (sys.setprofile)")
    if sys.gettrace() is not None:
        found.append("a Python tracer or debugger (sys.settrace)")
    tracer = _tracer(proc / "self" / "status")
    if tracer:
        found.append(f"process {tracer}, which traces this one")
    torch = sys.modules.get("torch")
    if torch is not None and torch._C._autograd._profiler_enabled():
        found.append("PyTorch's profiler")
    return tuple(found)


def _tracer(status: Path) -> int:
    try:
        lines = status.read_text("utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("TracerPid:")).split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return 0


RESULT_BYTES = 4 << 20
"""A result file and a job file of a large model."""
WORKER_BYTES = 512 << 20
"""A process that imported PyTorch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The machine as a run finds it; None where the system does not tell."""

    free_bytes: Mapping[str, int] = field(default_factory=dict)
    """Free space by folder: the working folder, the one for temporary files, home."""
    memory_bytes: int | None = None
    """Of the machine or of the container."""
    available_bytes: int | None = None
    num_cores: int = 1
    load_average: float | None = None
    """Of the last minute."""
    neighbours: tuple[Neighbour, ...] = ()
    """Other programs that compute now."""
    profilers: tuple[str, ...] = ()
    """What watches this process, in words."""
    static_memory: str = ""
    """The vendor's GE_USE_STATIC_MEMORY; empty when unset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Surroundings, and what this run asks of them."""

    surroundings: Surroundings
    environment: TuneEnvironment
    job_type: int
    device: str
    """What is measured: `cpu`, `cuda`, `npu`."""
    data_bytes: int = 0
    """Weights and inputs of the model; of operators the greatest operator's tensors."""
    thorough: bool = False
    """O1 or deeper_opat."""
    lanes: Lanes

    @property
    def disk_need_bytes(self) -> int:
        """(2 + lanes) × data + 1 GiB."""
        return (2 + self.lanes.count) * self.data_bytes + GIB

    @property
    def candidate_bytes(self) -> int:
        """3 × data + 1 GiB."""
        return candidate_bytes(self.data_bytes)

    @property
    def vendor_cores(self) -> tuple[int, str]:
        """The vendor's least number of cores for this job, and its formula with the numbers."""
        asked, half = self.environment, min(self.surroundings.num_cores // 2, 8)
        if self.job_type == 1:
            need = 2 * asked.tuners + asked.compilers + 1
            names = "2 × TUNING_PARALLEL_NUM + TE_PARALLEL_COMPILER + 1"
            return need, f"{names} = 2 × {asked.tuners} + {asked.compilers} + 1 = {need}"
        need = asked.compilers + asked.tuners + 1 + half + 50
        names = "TE_PARALLEL_COMPILER + TUNING_PARALLEL_NUM + 1 + min(cores / 2, 8) + 50"
        return need, f"{names} = {asked.compilers} + {asked.tuners} + 1 + {half} + 50 = {need}"

    def refuse_impossible(self) -> None:
        """Raise OutputError or TuneError, in one sentence with the numbers, where a run cannot work at all."""
        folder = str(self.environment.work_path)
        free = self.surroundings.free_bytes.get(folder)
        if free is not None and free < RESULT_BYTES:
            raise OutputError(
                f"{folder} must have {size_text(RESULT_BYTES)} free for the result file; it has "
                f"{size_text(free)}. Free space there, or set ASCEND_WORK_PATH."
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"{folder} must be a folder that can be written to. Set ASCEND_WORK_PATH to another.")
        temporary_folder()
        available = self.surroundings.available_bytes
        if available is not None and available < WORKER_BYTES:
            raise TuneError(
                f"tuning needs {size_text(WORKER_BYTES)} of memory for its worker process, and "
                f"{size_text(available)} are available. End other programs, then tune again."
            )


def candidate_bytes(data_bytes: int) -> int:
    """Return what one candidate takes: 3 × data + 1 GiB."""
    return 3 * data_bytes + GIB


def look_around(
    environ: Mapping[str, str], environment: TuneEnvironment, *, root: Path = Path("/"), watch_s: float = 0.2
) -> Surroundings:
    """Look at the machine; watches other processes for `watch_s` seconds. `root` is where /proc and /sys are."""
    memory = host.memory(root)
    temporary, home = Path(environ.get("TMPDIR") or "/tmp"), home_folder()
    disks = host.disks([environment.work_path, temporary, *([home] if home else [])])
    return Surroundings(
        free_bytes={str(one.path): one.free_bytes for one, *_ in disks.values()},
        memory_bytes=memory.total_bytes,
        available_bytes=memory.available_bytes,
        num_cores=host.usable_cores(root),
        load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        neighbours=computing(root / "proc", watch_s),
        profilers=profilers(environ, root / "proc"),
        static_memory=environ.get("GE_USE_STATIC_MEMORY", "").strip(),
    )


def conditions_of(
    surroundings: Surroundings,
    environment: TuneEnvironment,
    *,
    job_type: int,
    device: str = "cpu",
    data_bytes: int = 0,
    thorough: bool = False,
) -> Conditions:
    """Return what this run asks of its surroundings."""
    lanes = Lanes.of(
        environment,
        memory_bytes=surroundings.available_bytes,
        candidate_bytes=candidate_bytes(data_bytes),
        num_cores=surroundings.num_cores,
    )
    return Conditions(
        surroundings=surroundings, environment=environment, job_type=job_type, device=device, data_bytes=data_bytes,
        thorough=thorough, lanes=lanes,
    )  # fmt: skip
