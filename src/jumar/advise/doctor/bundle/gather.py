"""`gather`: the texts of a bundle: logs, the report, the machine's versions, settings and messages."""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from jumar.advise.doctor.bundle.masking import Own
from jumar.advise.doctor.bundle.pack import Source
from jumar.advise.doctor.entries import known_errors
from jumar.advise.doctor.logs.diagnosis import LogDiagnosis
from jumar.advise.doctor.logs.engine.folders import LogFile, find_logs, is_log_name
from jumar.advise.doctor.logs.engine.packed.readings import Unpacking
from jumar.advise.doctor.machine.host import Host
from jumar.base.errors import InputError
from jumar.base.host import read_text

CONFIGURATION = (
    "etc/os-release", "etc/ascend_install.info", "etc/hccn.conf", "usr/local/Ascend/driver/version.info",
    "usr/local/Ascend/firmware/version.info", "proc/cmdline", "proc/meminfo", "proc/loadavg", "proc/pressure/memory",
    "proc/self/limits", "proc/self/mountinfo", "proc/self/cgroup",
)  # fmt: skip
"""Files of the system that say what it is."""
_SETTINGS = (
    "ASCEND", "HCCL", "PYTORCH", "TORCH", "ACL_", "TASK_QUEUE", "NPU_", "OMP_", "GLOO", "TP_", "MASTER_", "RANK",
    "WORLD_SIZE", "LOCAL_", "NNODES", "NODE_RANK", "SLURM_N", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PATH",
    "LANG", "LC_", "AOE", "TE_", "GE_", "DUMP", "MS_", "GLOG", "CPU_AFFINITY", "JUMAR_", "TMPDIR", "CUDA_", "NCCL_",
)  # fmt: skip
"""Variables of these names say how the job was set up."""
DMESG_LINES = 2000
_DMESG_S = 10
_READ_BYTES = 2**20
_DAY_S = 24 * 60 * 60
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")
_MOST_FOUND = 400
"""Newest logs that are taken where none was named."""


def gather(
    host: Host, files: Sequence[LogFile], diagnosis: LogDiagnosis | None, reports: Mapping[str, str], notes: list[str],
    *, root: Path = Path("/"),
) -> Iterator[Source]:  # fmt: skip
    """Yield the texts; `reports` are texts that the caller made, by name. `notes` fills with what was left out."""
    for name, text in reports.items():
        yield Source(name=name, what="report of jumar doctor", lines=text.split("\n"), is_whole=True)
    yield Source(name="machine/variables.txt", what="environment variables that Jumar knows", lines=_variables(host))
    yield Source(name="machine/packages.txt", what="installed Python packages", lines=_packages(), is_whole=True)
    if host.smi is not None:
        yield Source(name="machine/npu-smi.txt", what="output of npu-smi info", lines=host.smi.text.splitlines())
    yield from _configuration(host, root)
    messages = _dmesg()
    if messages is None:
        notes.append("Messages of the kernel (dmesg) may not be read by this user.")
    else:
        yield Source(name="machine/dmesg.txt", what="last messages of the kernel", lines=messages)
    yield from _logs(files, diagnosis, notes)


def found_logs(
    environ: Mapping[str, str], notes: list[str], *, folder: Path, now: float | None = None
) -> list[LogFile]:
    """Return the logs that are packed where none was named: the vendor's of this user, and today's of the folder."""
    found = [*_vendors(environ, notes), *_of_today(folder, time.time() if now is None else now)]
    found.sort(key=lambda file: -file.path.stat().st_mtime)
    if len(found) > _MOST_FOUND:
        notes.append(
            f"Of {len(found)} logs that were found the newest {_MOST_FOUND} are packed; name others to pack them."
        )
    return found[:_MOST_FOUND]


def _vendors(environ: Mapping[str, str], notes: list[str]) -> list[LogFile]:
    home = environ.get("HOME")
    root = environ.get("ASCEND_PROCESS_LOG_PATH") or (f"{home}/ascend/log" if home else "")
    if not root or not Path(root).is_dir():
        notes.append("No log was named, and the vendor's folder of logs (~/ascend/log) is not here.")
        return []
    try:
        return list(find_logs([root]).files)
    except InputError as error:
        notes.append(str(error))
        return []


def _of_today(folder: Path, now: float) -> list[LogFile]:
    """Return the logs in a folder itself that were written to in the last day: those of the current run."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and is_log_name(path.name) and not path.name.endswith(_ARCHIVES):
            about = path.stat()
            if now - about.st_mtime < _DAY_S:
                found.append(LogFile(path=path, size_bytes=about.st_size, is_named=False))
    return found


def own_of(host: Host) -> Own:
    """Return what this machine and its user are called, as the system and the variables say."""
    names = {host.network.host_name, socket.gethostname(), *(host.environ.get(name, "") for name in _HOST_VARIABLES)}
    names |= {name for name, found in host.network.names.items() if not _all_loopback(found)}
    users = {host.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    with suppress(KeyError, OSError, ImportError):  # a container without this user's entry
        users.add(getpass.getuser())
    home = host.environ.get("HOME", "")
    return Own(
        host_names=tuple(sorted(filter(None, names))),
        users=tuple(sorted(filter(None, users - {"root"}))),
        homes=(home,) if home and home not in ("/", "/root") else (),
        addresses=host.network.own,
    )


_HOST_VARIABLES = ("HOSTNAME", "SLURMD_NODENAME", "NODE_NAME", "POD_NAME")


def _all_loopback(addresses: Iterable[str]) -> bool:
    return all(address.startswith("127.") or address.startswith(("::1", "ff0", "fe0")) for address in addresses)


@functools.cache
def ordinary_words() -> frozenset[str]:
    """Return the words of known errors, in lower case: masking one as a name would hide an error."""
    signatures = known_errors().signatures
    said = " ".join(f"{one.pattern} {one.needle}" for one in signatures)
    words = set(re.findall(r"[A-Za-z0-9_.-]{2,}", said))
    shown = " ".join(one.example for one in signatures)  # names with numbers in it stand for hosts
    shown += " ".join(f"{one.title} {one.cause} {one.action}" for one in signatures)
    words |= set(re.findall(r"(?<![A-Za-z0-9_.-])[A-Za-z_]{2,}(?![A-Za-z0-9_-])", shown))
    return frozenset(word.lower() for word in words)


def _variables(host: Host) -> Iterator[str]:
    for name, value in sorted(host.environ.items()):
        if name.startswith(_SETTINGS):
            yield f"{name}={value}".replace("\n", "\\n")


def _packages() -> list[str]:
    found = {f"{one.metadata['Name']}=={one.version}" for one in metadata.distributions() if one.metadata["Name"]}
    return sorted(found, key=str.lower)


def _configuration(host: Host, root: Path) -> Iterator[Source]:
    for name in CONFIGURATION:
        text = read_text(root / name)
        if text:
            yield Source(name=f"machine/files/{name}", what="file of the system", lines=text.splitlines())
    named = [host.software.cann_file, *([host.rank_table.path] if host.rank_table else [])]
    for path in filter(None, named):
        text = read_text(Path(path)) if Path(path).is_file() else ""
        if text:
            yield Source(name=f"machine/files/{Path(path).name}", what="configuration", lines=text.splitlines())


def _dmesg(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> list[str] | None:
    try:
        done = run(["dmesg"], capture_output=True, text=True, timeout=_DMESG_S, check=False, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[-DMESG_LINES:] if done.returncode == 0 else None


def _logs(files: Sequence[LogFile], diagnosis: LogDiagnosis | None, notes: list[str]) -> Iterator[Source]:
    errors: dict[Path, list[int]] = {}
    for report in diagnosis.files if diagnosis else ():
        errors[report.path] = [hit.line for hit in report.hits]
    common = _common_folder([file.path for file in files])
    for file in files:
        unpacking = Unpacking(file)
        try:
            for reading in unpacking.readings():
                name = f"logs/{_relative(reading.path, common)}"
                what = "log" if reading.path == file.path else "log in an archive"
                lines = _lines(reading.stream.read)
                yield Source(name=name, what=what, lines=lines, errors=errors.get(reading.path, ()))
        except OSError as error:
            notes.append(f"{file.path} cannot be read ({error.strerror}).")
        notes += unpacking.notes


def _common_folder(paths: Sequence[Path]) -> Path | None:
    folders = [path.absolute().parent for path in paths]
    return Path(os.path.commonpath(folders)) if folders else None


def _relative(path: Path, common: Path | None) -> Path:
    full = path.absolute()
    return full.relative_to(common) if common is not None and full.is_relative_to(common) else Path(path.name)


def _lines(read: Callable[[int], bytes]) -> Iterator[str]:
    """Yield the lines of a stream without their ends."""
    rest = b""
    while data := read(_READ_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").removesuffix("\r")
    if rest:
        yield rest.decode("utf-8", "replace").removesuffix("\r")
