"""`survey_volumes`: the file systems that a job writes to: type, free files, how they are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jumar.advise.doctor.machine.parts import Volume
from jumar.base.host import Disk, disk, disks, read_text

CACHES = ("ASCEND_CACHE_PATH", "ASCEND_WORK_PATH", "ACL_OP_COMPILER_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name a folder for compiled kernels."""
WORK, TEMPORARY, HOME, CACHE = "the working folder", "temporary files", "logs and kernel caches", "compiled kernels"


def survey_volumes(environ: Mapping[str, str], folder: Path, root: Path = Path("/")) -> tuple[Volume, ...]:
    """Measure where a job writes: its folder, temporary files, and the vendor's logs and caches (home)."""
    wanted = [
        (folder, WORK),
        (Path(environ.get("TMPDIR") or "/tmp"), TEMPORARY),
        (Path(environ.get("ASCEND_PROCESS_LOG_PATH") or environ.get("HOME") or "/"), HOME),
        *((Path(environ[name]), CACHE) for name in CACHES if environ.get(name)),
    ]
    kinds = _mounts(root)
    volumes = []
    for found in disks(path for path, _ in wanted).values():
        paths = {one.path for one in found}
        purposes = dict.fromkeys(purpose for path, purpose in wanted if path in paths)
        volumes.append(_volume(found[0], ", ".join(purposes), kinds))
    return tuple(volumes)


def survey_shared_memory(root: Path) -> Volume | None:
    """Measure /dev/shm; None where it cannot be asked."""
    found = disk(root / "dev/shm")
    return None if found is None else _volume(found, "shared memory of the DataLoader's workers", {})


def _volume(found: Disk, purpose: str, kinds: Mapping[str, str]) -> Volume:
    return Volume(
        path=str(found.path), purpose=purpose, total_bytes=found.total_bytes, free_bytes=found.free_bytes,
        kind=_kind(found.path, kinds), free_inodes=found.free_inodes, total_inodes=found.total_inodes,
        is_read_only=found.is_read_only, is_noexec=found.is_noexec,
    )  # fmt: skip


def _mounts(root: Path) -> dict[str, str]:
    """Return mount point to type of file system. Source: proc(5), /proc/self/mountinfo."""
    kinds = {}
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and kind:
            kinds[fields[4].replace("\\040", " ")] = kind[0]
    return kinds


def _kind(path: Path, kinds: Mapping[str, str]) -> str:
    full = path.resolve()
    return next((kinds[str(place)] for place in (full, *full.parents) if str(place) in kinds), "")
