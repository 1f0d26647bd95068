"""The host is surveyed once for all rooms: machines laid out in a folder, with and without containers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from jumar.base import host

MIB, GIB = 2**20, 2**30
MEMINFO = f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {32 * GIB // 1024} kB\nSwapFree: {GIB // 1024} kB\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(limit: str, used: int, cached: int = 0, folder: str = "") -> dict[str, str]:
    head = f"sys/fs/cgroup/{folder}"
    return {
        f"{head}memory.max": limit,
        f"{head}memory.current": str(used),
        f"{head}memory.stat": f"anon 1\ninactive_file {cached}\n",
    }


def v1(limit: int, used: int, cached: int = 0) -> dict[str, str]:
    head = "sys/fs/cgroup/memory/memory."
    return {
        f"{head}limit_in_bytes": str(limit),
        f"{head}usage_in_bytes": str(used),
        f"{head}stat": f"inactive_file 5\ntotal_inactive_file {cached}\n",
    }


def test_a_machine_without_a_container(tmp_path: Path) -> None:
    found = host.memory(machine(tmp_path, {}))
    assert (found.total_bytes, found.available_bytes, found.limit_bytes) == (64 * GIB, 32 * GIB, None)
    assert found.allocatable_bytes == 33 * GIB


def test_nothing_is_known_of_a_system_without_proc(tmp_path: Path) -> None:
    assert host.memory(tmp_path) == host.Memory()
    assert host.memory(tmp_path).allocatable_bytes is None


@pytest.mark.parametrize("group", [v2(str(8 * GIB), 8 * GIB - 100 * MIB), v1(8 * GIB, 8 * GIB - 100 * MIB)])
def test_a_full_container_on_an_empty_machine_is_seen(tmp_path: Path, group: dict[str, str]) -> None:
    found = host.memory(machine(tmp_path, group))
    assert (found.total_bytes, found.available_bytes, found.limit_bytes) == (8 * GIB, 100 * MIB, 8 * GIB)
    assert found.machine_bytes == 64 * GIB
    assert found.allocatable_bytes == 100 * MIB


@pytest.mark.parametrize("group", [v2(str(8 * GIB), 8 * GIB, GIB), v1(8 * GIB, 8 * GIB, GIB)])
def test_cached_files_count_as_available(tmp_path: Path, group: dict[str, str]) -> None:
    assert host.memory(machine(tmp_path, group)).available_bytes == GIB


@pytest.mark.parametrize("group", [v2("max", GIB), v1(2**63 - 4096, GIB)])
def test_no_limit_is_no_limit(tmp_path: Path, group: dict[str, str]) -> None:
    found = host.memory(machine(tmp_path, group))
    assert (found.limit_bytes, found.available_bytes) == (None, 32 * GIB)


def test_a_limit_without_its_use_bounds_the_total(tmp_path: Path) -> None:
    found = host.memory(machine(tmp_path, {"sys/fs/cgroup/memory.max": str(8 * GIB)}))
    assert (found.total_bytes, found.available_bytes, found.limit_bytes) == (8 * GIB, 8 * GIB, 8 * GIB)


def test_the_least_of_the_groups_above_a_process_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/work/job\n",
        **v2(str(16 * GIB), 15 * GIB, folder="work/"),
        **v2(str(8 * GIB), GIB, folder="work/job/"),
    }
    found = host.memory(machine(tmp_path, files))
    assert (found.total_bytes, found.available_bytes) == (8 * GIB, GIB)


def test_a_path_outside_of_the_container_is_not_followed(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/../other\n", **v2(str(8 * GIB), GIB)}
    assert host.memory(machine(tmp_path, files)).limit_bytes == 8 * GIB


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, math.inf),
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}, math.inf),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "nonsense"}, None),
        (
            {
                "proc/self/cgroup": "0::/a",
                "sys/fs/cgroup/cpu.max": "max 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
            },
            2.0,
        ),
    ],
)
def test_the_quota_of_a_container_is_read(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert host.cores(machine(tmp_path, files)).quota == quota


@pytest.mark.parametrize(
    ("cores", "count"),
    [
        (host.Cores(), 1),
        (host.Cores(num_cores=8), 8),
        (host.Cores(num_cores=8, num_usable=4), 4),
        (host.Cores(num_cores=192, num_usable=192, quota=4.0), 4),
        (host.Cores(num_cores=192, num_usable=192, quota=2.5), 2),
        (host.Cores(num_cores=192, num_usable=192, quota=0.5), 1),
        (host.Cores(num_cores=8, num_usable=2, quota=math.inf), 2),
    ],
)
def test_workers_are_counted_by_what_they_may_use(cores: host.Cores, count: int) -> None:
    assert cores.count == count


def test_a_quota_bounds_the_workers_of_every_room(tmp_path: Path) -> None:
    assert host.usable_cores(machine(tmp_path, {"sys/fs/cgroup/cpu.max": "100000 100000"})) == 1


def test_folders_of_one_disk_are_one_disk(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    found = host.disks([tmp_path, tmp_path / "a", tmp_path / "absent"])
    assert [[disk.path.name for disk in disks] for disks in found.values()] == [[tmp_path.name, "a"]]
    assert host.disk(tmp_path / "absent") is None
