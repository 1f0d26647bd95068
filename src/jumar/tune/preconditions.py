"""What a tuning run finds around it: disk, memory, cores, profilers, other programs; and what it needs of each.

The rules JM530 to JM534 judge it. They warn; `refuse_impossible` refuses only what cannot work at all.

| what | the vendor's (its host beside an NPU) | here |
|---|---|---|
| disk | home folder ≥ 20 GB | (2 + lanes) × data of the model + 1 GiB for compiled candidates |
| memory | training RAM × TUNING_PARALLEL_NUM, ≥ 32 GB (64 for O1 and deeper_opat) | (3 × data + 1 GiB) × lanes |
| cores, job 2 | TE_PARALLEL_COMPILER + TUNING_PARALLEL_NUM + 1 + min(cores / 2, 8) + 50 | no bound, lanes follow |
| cores, job 1 | 2 × TUNING_PARALLEL_NUM + TE_PARALLEL_COMPILER + 1 | no bound |

A candidate for an engine holds the weights once more in its own layout while PyTorch's are still there, and
its activations: 3 × data. Source of the vendor's formulas: the manuals of offline tuning and of training (001).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jumar.errors import OutputError
from jumar.home import home_folder
from jumar.tune.environment import Lanes, TuneEnvironment, usable_cores
from jumar.tune.errors import TuneError
from jumar.tune.folders import temporary_folder
from jumar.tune.neighbours import Neighbour, computing, profilers

GIB = 1 << 30
RESULT_BYTES = 4 << 20
"""A result file and a job file of a large model."""
WORKER_BYTES = 512 << 20
"""A process that imported PyTorch."""
_UNLIMITED_BYTES = 1 << 60


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
                f"{folder} must have {RESULT_BYTES >> 20} MiB free for the result file; it has "
                f"{free / 2**20:.1f} MiB. Free space there, or set ASCEND_WORK_PATH."
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"{folder} must be a folder that can be written to. Set ASCEND_WORK_PATH to another.")
        temporary_folder()
        available = self.surroundings.available_bytes
        if available is not None and available < WORKER_BYTES:
            raise TuneError(
                f"tuning needs {WORKER_BYTES >> 20} MiB of memory for its worker process, and "
                f"{available / 2**20:.0f} MiB are available. End other programs, then tune again."
            )


def gib(size_bytes: float) -> str:
    """Return a size in words: `1.3 GiB`, `0.05 GiB`, `less than 0.01 GiB`."""
    size = size_bytes / GIB
    if 0 < size < 0.01:
        return "less than 0.01 GiB"
    return f"{size:.2g} GiB" if size < 10 else f"{size:.0f} GiB"


def candidate_bytes(data_bytes: int) -> int:
    """Return what one candidate takes: 3 × data + 1 GiB."""
    return 3 * data_bytes + GIB


def look_around(
    environ: Mapping[str, str], environment: TuneEnvironment, *, root: Path = Path("/"), watch_s: float = 0.2
) -> Surroundings:
    """Look at the machine; watches other processes for `watch_s` seconds. `root` is where /proc and /sys are."""
    total, available = memory(root)
    temporary, home = Path(environ.get("TMPDIR") or "/tmp"), home_folder()
    return Surroundings(
        free_bytes=_free([environment.work_path, temporary, *([home] if home else [])]),
        memory_bytes=total,
        available_bytes=available,
        num_cores=usable_cores(),
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


def memory(root: Path = Path("/")) -> tuple[int | None, int | None]:
    """Return (total, available) bytes, of the container where it has a limit; None where the system does not tell."""
    sizes = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * 1024
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    for folder, limit_name, used_name in (
        (root / "sys/fs/cgroup", "memory.max", "memory.current"),
        (root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
        if limit.isdigit() and used.isdigit() and int(limit) < _UNLIMITED_BYTES:
            left = max(0, int(limit) - int(used) + _file_cache(folder))
            total = min(total, int(limit)) if total is not None else int(limit)
            available = min(available, left) if available is not None else left
    return total, available


def _file_cache(cgroup: Path) -> int:
    """Return the bytes of cached files that a container gives up when memory is asked for."""
    lines = _text(cgroup / "memory.stat").splitlines()
    sizes = dict(line.split() for line in lines if len(line.split()) == 2)
    text = sizes.get("total_inactive_file", sizes.get("inactive_file", "0"))
    return int(text) if text.isdigit() else 0


def _free(folders: list[Path]) -> dict[str, int]:
    """Return the free bytes of each folder that can be asked, one folder a file system."""
    free: dict[str, int] = {}
    seen: set[int] = set()
    for folder in folders:
        try:
            device = folder.stat().st_dev
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        if device not in seen:
            seen.add(device)
            free[str(folder)] = usage.free
    return free


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
