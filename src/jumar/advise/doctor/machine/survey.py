"""`survey`: describe this machine as a `Host`. It only reads; a value that cannot be read stays None.

`root` stands in front of every system path, so that a test can lay out a machine in a folder.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from jumar.advise.doctor.machine.host import Host, Npu, Volume
from jumar.advise.doctor.machine.interpreter import ask_interpreter
from jumar.base.host import Disk, cores, disk, disks, memory

CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH")
"""Variables that `set_env.sh` of CANN sets, each to a folder."""
CANN_PLACES = ("usr/local/Ascend/cann", "usr/local/Ascend/ascend-toolkit", "usr/local/Ascend/nnae")
CANN_HOME_PLACES = ("Ascend/cann", "Ascend/ascend-toolkit", "Ascend/nnae")


def survey(environ: Mapping[str, str] | None = None, *, root: Path = Path("/"), folder: Path | None = None) -> Host:
    """Describe this machine; `folder` is where the job would run (the current folder by default)."""
    environ = os.environ if environ is None else environ
    shared = disk(root / "dev/shm")
    return Host(
        environ=dict(environ),
        system=platform.system(),
        python=ask_interpreter(environ),
        npu=survey_npu(environ, root),
        cores=cores(root),
        governors=survey_governors(root),
        memory=memory(root),
        shared_memory=None if shared is None else _volume(shared, "shared memory of the DataLoader's workers"),
        volumes=survey_volumes(environ, folder or Path.cwd()),
        open_files=open_file_limit(),
    )


def survey_npu(environ: Mapping[str, str], root: Path) -> Npu:
    """Find CANN, the driver's tool and the device files."""
    home = environ.get("HOME", "")
    places = [root / place for place in CANN_PLACES]
    places += [Path(home) / place for place in CANN_HOME_PLACES if home]
    nodes = sorted((root / "dev").glob("davinci[0-9]*")) if (root / "dev").is_dir() else []
    tool = shutil.which("npu-smi", path=environ.get("PATH", ""))
    usual = root / "usr/local/sbin/npu-smi"
    return Npu(
        cann_folders=tuple(str(place) for place in places if place.is_dir()),
        missing_folders=tuple(
            f"{name}={environ[name]}"
            for name in CANN_VARIABLES
            if environ.get(name) and not Path(environ[name]).is_dir()
        ),
        npu_smi=tool or (str(usual) if usual.exists() else None),
        device_nodes=tuple(str(node) for node in nodes),
        unreadable_nodes=tuple(str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)),
    )


def survey_governors(root: Path) -> dict[str, int]:
    """Count the cores under each frequency governor."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return dict(Counter(text for file in files if (text := _read(file))))


def survey_volumes(environ: Mapping[str, str], folder: Path) -> tuple[Volume, ...]:
    """Measure where a job writes: its folder, temporary files, and the vendor's logs and caches (home)."""
    wanted = [
        (folder, "the working folder"),
        (Path(environ.get("TMPDIR") or "/tmp"), "temporary files"),
        (Path(environ.get("ASCEND_PROCESS_LOG_PATH") or environ.get("HOME") or "/"), "logs and kernel caches"),
    ]
    volumes = []
    for found in disks(path for path, _ in wanted).values():
        paths = {one.path for one in found}
        volumes.append(_volume(found[0], ", ".join(purpose for path, purpose in wanted if path in paths)))
    return tuple(volumes)


def _volume(found: Disk, purpose: str) -> Volume:
    return Volume(path=str(found.path), purpose=purpose, total_bytes=found.total_bytes, free_bytes=found.free_bytes)


def open_file_limit() -> int | None:
    """Return the soft limit of open files, or None on a system without one."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return None
