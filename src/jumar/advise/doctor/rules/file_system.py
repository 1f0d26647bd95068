"""JM825 file-system.

## What it does
Looks at the file systems of the working folder, of temporary files, of logs and of kernel caches: mounted read-only,
out of inodes, on a network, or mounted `noexec`.

## Why it matters
A disk without inodes is full with space left. CANN locks files in its caches, which some network file systems do not
support: runs then hang or fail at the start. Compiled kernels in a folder mounted `noexec` cannot be loaded.

## Example
```
OSError: [Errno 28] No space left on device      # df: 40 % used, df -i: 100 %
```

## Use instead
```
export ASCEND_CACHE_PATH=/local/cache ASCEND_WORK_PATH=/local/work TMPDIR=/local/tmp
```

## Fix safety
No edit is made.

## References
CANN installation guide, "File Paths": shared drives and file locks; statvfs(3); mount(8), noexec.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.parts import Volume
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM825",
    name="file-system",
    summary="A folder that the job writes to is read-only, out of files, remote or not for programs.",
    severity=Severity.WARNING,
    doc=__doc__,
)

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "afs", "dpc", "wekafs")
REMOTE_PARTS = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.juicefs", "fuse.obsfs", "fuse.goofys")
LEAST_INODES, LEAST_SHARE = 10_000, 0.01
CACHES = ("logs and kernel caches", "compiled kernels")
PROGRAMS = ("temporary files", *CACHES)


def find(host: Host) -> Outcomes:
    """Judge each file system."""
    if not host.volumes:
        return [not_checked(RULE, "no file system could be looked at here.")]
    return [finding for volume in host.volumes for finding in _findings(host, volume)]


def _findings(host: Host, volume: Volume) -> list[Finding]:
    found = []
    where = f"{volume.path} ({volume.purpose})"
    if volume.is_read_only:
        found.append(
            RULE.finding(
                f"{where} is mounted read-only.",
                severity=Severity.ERROR,
                evidence={"path": volume.path},
                why="Logs, caches, checkpoints and temporary files cannot be written there.",
                action="Mount it for writing, or point TMPDIR, ASCEND_WORK_PATH and ASCEND_CACHE_PATH elsewhere.",
            )
        )
    free, total = volume.free_inodes, volume.total_inodes
    if free is not None and total and free < min(LEAST_INODES, LEAST_SHARE * total):
        found.append(
            RULE.finding(
                f"{free} files can still be made in {where}.",
                evidence={"free_inodes": free, "total_inodes": total},
                why="The disk is then full although space is left; kernel caches hold many small files.",
                action="Remove old caches and logs (df -i shows the use), or point the caches elsewhere.",
            )
        )
    if host.has_npu_software and _is_remote(volume.kind) and any(name in volume.purpose for name in CACHES):
        found.append(
            RULE.finding(
                f"{where} is on a network ({volume.kind}).",
                severity=Severity.ADVICE,
                evidence={"kind": volume.kind},
                why="CANN locks files in its caches; not every network file system supports that, and all ranks wait.",
                action="Point ASCEND_CACHE_PATH and ASCEND_WORK_PATH to a disk of this machine.",
            )
        )
    if volume.is_noexec and any(name in volume.purpose for name in PROGRAMS):
        found.append(
            RULE.finding(
                f"{where} is mounted noexec.",
                evidence={"path": volume.path},
                why="Kernels and extensions that are compiled there cannot be loaded.",
                action="Point TMPDIR, ASCEND_CACHE_PATH and TORCHINDUCTOR_CACHE_DIR to a folder without noexec.",
            )
        )
    return found


def _is_remote(kind: str) -> bool:
    return kind in REMOTE or kind in REMOTE_PARTS
