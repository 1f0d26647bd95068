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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base import host
from jumar.base.errors import OutputError
from jumar.base.home import home_folder
from jumar.base.text import GIB, size_text
from jumar.tune.measure.conditions.environment import Lanes, TuneEnvironment
from jumar.tune.measure.conditions.neighbours import Neighbour, computing, profilers
from jumar.tune.model.errors import TuneError
from jumar.tune.model.folders import temporary_folder

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
