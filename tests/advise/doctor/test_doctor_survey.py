"""Each part of a machine, read from a machine that is laid out in a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jumar.advise.doctor.machine.host import Npu
from jumar.advise.doctor.machine.parts import Chip, DeviceProcess
from jumar.advise.doctor.machine.survey.disks import survey_volumes
from jumar.advise.doctor.machine.survey.kernel import port_ranges, survey_clock, survey_kernel
from jumar.advise.doctor.machine.survey.network import survey_network
from jumar.advise.doctor.machine.survey.placement import number_list, survey_placement
from jumar.advise.doctor.machine.survey.power import survey_power
from jumar.advise.doctor.machine.survey.processes import ask_npu_smi, read_npu_smi, survey_holders
from jumar.advise.doctor.machine.survey.rank_table import survey_rank_table
from jumar.advise.doctor.machine.survey.versions import survey_software
from jumar.base.host import pressure


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


CPU = "sys/devices/system/cpu"


def test_power_is_read_of_each_driver(tmp_path):
    files = {
        f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power\n",
        f"{CPU}/cpu1/cpufreq/energy_performance_preference": "performance\n",
        f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
        f"{CPU}/cpu0/cpufreq/scaling_max_freq": "1500000\n",
        f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3000000\n",
        f"{CPU}/intel_pstate/no_turbo": "1\n",
        "etc/tuned/active_profile": "powersave\n",
        "sys/firmware/acpi/platform_profile": "low-power\n",
    }
    power = survey_power(lay_out(tmp_path, files))
    assert power.preferences == {"balance_power": 1, "performance": 1}
    assert (power.driver, power.is_boost_off, power.capped_percent) == ("intel_pstate", True, 50.0)
    assert (power.tuned_profile, power.platform_profile) == ("powersave", "low-power")


def test_of_a_machine_that_tells_nothing_nothing_is_known(tmp_path):
    power, kernel, network = survey_power(tmp_path), survey_kernel(tmp_path), survey_network({}, tmp_path)
    assert (power.is_boost_off, power.capped_percent, kernel.overcommit, kernel.reserved_ports) == (
        None,
        None,
        None,
        None,
    )
    assert (network.listening, network.device_addresses, network.own) == (None, None, frozenset())
    assert (pressure(tmp_path), survey_holders(tmp_path), survey_clock(tmp_path).is_synchronised) == (None, None, None)


def test_pressure_is_that_of_the_container_where_it_tells(tmp_path):
    machine = "some avg10=0.00 avg60=1.50 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.50 avg300=0.00 total=1\n"
    lay_out(tmp_path, {"proc/pressure/memory": machine})
    found = pressure(tmp_path)
    assert found is not None
    assert (found.some_percent, found.full_percent, found.in_container) == (1.5, 0.5, False)
    group = "some avg10=0.00 avg60=60.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=30.00 avg300=0.00 total=1\n"
    lay_out(tmp_path, {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.pressure": group})
    found = pressure(tmp_path)
    assert found is not None
    assert (found.full_percent, found.in_container) == (30.0, True)


def test_the_kernel_is_read(tmp_path):
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "proc/sys/net/ipv4/ip_local_reserved_ports": "60000-60015,50000\n",
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/sys/kernel/osrelease": "5.10.0-60\n",
    }
    kernel = survey_kernel(lay_out(tmp_path, files))
    assert (kernel.huge_pages, kernel.local_ports, kernel.overcommit) == ("madvise", (32768, 60999), 2)
    assert kernel.reserved_ports == ((60000, 60015), (50000, 50000))


@pytest.mark.parametrize(
    ("text", "ranges"), [("", ()), ("1-3", ((1, 3),)), ("5, 7-9\n", ((5, 5), (7, 9))), ("x,-", ())]
)
def test_ranges_of_ports(text, ranges):
    assert port_ranges(text) == ranges


@pytest.mark.parametrize(("text", "numbers"), [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("5", (5,)), ("a-b", ())])
def test_lists_of_cores(text, numbers):
    assert number_list(text) == numbers


def test_placement_finds_the_devices_by_their_vendor(tmp_path):
    device = "sys/bus/pci/devices/0000:c1:00.0"
    files = {
        "proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node1/cpulist": "2-3\n",
        f"{device}/vendor": "0x19e5\n",
        f"{device}/class": "0x120000\n",
        f"{device}/numa_node": "1\n",
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x19e5\n",
        "sys/bus/pci/devices/0000:01:00.0/class": "0x020000\n",
        "sys/bus/pci/devices/0000:01:00.0/numa_node": "0\n",
    }
    place = survey_placement(lay_out(tmp_path, files))
    assert (place.allowed_cores, place.allowed_nodes) == ((0, 1), (0,))
    assert place.node_cores == {0: (0, 1), 1: (2, 3)}
    assert place.device_nodes == {"0000:C1:00.0": 1}


DRIVER = """\
Version=25.0.rc1.1
ascendhal_version=7.35.23
compatible_version=[V100R001C17],[V100R001C21]
compatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""


@pytest.mark.parametrize(
    ("file", "text", "release"),
    [
        ("aarch64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\n", "8.2.RC1"),
        ("toolkit/version.info", "Version=8.2.0.0.201\nversion_dir=8.2.RC1\n", "8.2.RC1"),
        ("opp/version.info", "Version=8.5.0.2.220\nversion_dir=8.5.0\n", "8.5.0"),
        ("opp/version.info", "Version=8.5.0.2.220\nversion_dir=cann-8.5.0\n", "8.5.0"),
        ("x86_64-linux/ascend_toolkit_install.info", "version=8.3.RC1.alpha003\n", "8.3.RC1.alpha003"),
        ("opp/version.info", "Version=7.6.0.1.220\n", ""),
        ("readme", "nothing", ""),
    ],
)
def test_versions_come_from_the_vendors_own_files(tmp_path, file, text, release):
    root = lay_out(
        tmp_path,
        {
            f"cann/{file}": text,
            "usr/local/Ascend/driver/version.info": DRIVER,
            "usr/local/Ascend/firmware/version.info": "Version=7.7.0.1.231\npackage_version=25.0.rc1.1\n",
        },
    )
    software = survey_software({"ASCEND_HOME_PATH": str(root / "cann")}, Npu(), root)
    assert (software.driver, software.firmware, software.cann) == ("25.0.rc1.1", "7.7.0.1.231", release)
    assert software.firmware_range == (("6.4.0", "6.4.99"), ("7.0.0", "7.7.99"))


def test_the_release_is_the_name_of_the_folder_where_no_file_tells(tmp_path):
    (tmp_path / "ascend-toolkit/8.0.RC3").mkdir(parents=True)
    (tmp_path / "ascend-toolkit/latest").symlink_to("8.0.RC3")
    software = survey_software({}, Npu(cann_folders=(str(tmp_path / "ascend-toolkit"),)), tmp_path)
    assert software.cann == "8.0.RC3"


A2 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.rc1                 Version: 23.0.rc1                                              |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910ProB             | OK            | 78.4        33                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           1198 / 15137      30711/ 32768         |
+===========================+===============+====================================================+
| 5     910B3               | Alarm         | -           41                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3385 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 55115         | python                   | 30784                   |
+===========================+===============+====================================================+
| No running processes found in NPU 5                                                            |
"""
A3 = """\
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                                    |
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
| 0     Ascend910           | OK            | 162.6                34                      0    / 0                |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                3419 / 65536            |
| 0     Ascend910           | OK            | -                    34                      0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0                2874 / 65536            |
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
| 0       0                 | 632268        | python3.1          | 197                   | NA                      |
| No running processes found in NPU 1                                                                              |
"""


def test_npu_smi_of_one_chip_a_card_is_read():
    smi = read_npu_smi(A2)
    assert smi.version == "23.0.rc1"
    assert smi.chips == (
        Chip(npu=0, chip=0, name="910ProB", health="OK", bus="0000:C1:00.0", used_mb=30711, total_mb=32768),
        Chip(npu=5, chip=0, name="910B3", health="Alarm", bus="0000:C2:00.0", used_mb=3385, total_mb=65536),
    )
    assert smi.processes == (DeviceProcess(pid=55115, name="python", npu=0, memory_mb=30784),)


def test_npu_smi_of_two_chips_a_card_and_ids_in_the_container_is_read():
    smi = read_npu_smi(A3)
    assert [(chip.npu, chip.chip, chip.used_mb) for chip in smi.chips] == [(0, 0, 3419), (0, 1, 2874)]
    assert smi.processes == (DeviceProcess(pid=632268, name="python3.1", npu=0, memory_mb=197),)


def test_a_tool_that_fails_or_does_not_end_tells_nothing():
    def fails(*args, **kwargs):
        return subprocess.CompletedProcess(args, 255, "dcmi module initialize failed", "")

    def hangs(*args, **kwargs):
        raise subprocess.TimeoutExpired(args, 1)

    assert ask_npu_smi(None) is None
    assert ask_npu_smi("/x", run=fails) is None
    assert ask_npu_smi("/x", run=hangs) is None


def test_processes_that_hold_a_device_are_found_by_their_open_files(tmp_path):
    lay_out(tmp_path, {"proc/41/comm": "python\n", "proc/42/comm": "bash\n"})
    for pid, target in (("41", "/dev/davinci3"), ("42", "/dev/davinci_manager")):
        (tmp_path / "proc" / pid / "fd").mkdir()
        (tmp_path / "proc" / pid / "fd" / "7").symlink_to(target)
    assert survey_holders(tmp_path) == (DeviceProcess(pid=41, name="python", npu=3),)


TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 192.168.0.0
        /24 link UNICAST
     |-- 192.168.0.10
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
"""
ROUTE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:EA60 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 1
"""


def test_addresses_names_and_ports_are_read(tmp_path):
    files = {
        "proc/net/fib_trie": TRIE,
        "proc/net/route": ROUTE,
        "proc/net/if_inet6": "fe8000000000000000fc00fffe000001 02 40 20 80     eth0\n",
        "proc/net/dev": "Inter-|\n face |\n  eth0: 1\n    lo: 2\n",
        "proc/net/tcp": TCP,
        "proc/sys/kernel/hostname": "node-0\n",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node-0 node-0.x # me\n",
        "etc/hccn.conf": "address_0=192.168.100.101\nnetmask_0=255.255.255.0\nIPv6address_1=fd00::1\n",
    }
    network = survey_network({}, lay_out(tmp_path, files))
    assert network.addresses == {"eth0": ("192.168.0.10", "fe80::fc:ff:fe00:1"), "lo": ("127.0.0.1",)}
    assert (network.interfaces, network.host_name) == (("eth0", "lo"), "node-0")
    assert network.names["node-0.x"] == ("127.0.1.1",)
    assert network.listening == frozenset({29500})
    assert network.device_addresses == {0: "192.168.100.101", 1: "fd00::1"}


def test_the_rendezvous_is_asked_for_only_where_it_is_set(tmp_path):
    asked: list[object] = []

    def resolve(name: str) -> tuple[str, ...]:
        asked.append(name)
        return ("10.0.0.1",)

    def connect(name: str, port: int) -> bool:
        asked.append((name, port))
        return False

    assert survey_network({}, tmp_path, resolve=resolve, connect=connect).rendezvous is None
    environ = {"MASTER_ADDR": "node-0", "MASTER_PORT": "29500", "RANK": "0"}
    place = survey_network(environ, tmp_path, resolve=resolve, connect=connect).rendezvous
    assert place is not None
    assert (place.port, place.resolved, place.answers) == (29500, ("10.0.0.1",), None)
    place = survey_network({**environ, "RANK": "3"}, tmp_path, resolve=resolve, connect=connect).rendezvous
    assert place is not None
    assert place.answers is False
    assert asked == ["node-0", "node-0", ("node-0", 29500)]


def test_file_systems_have_their_type_and_their_free_files(tmp_path):
    mounts = f"1 1 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / {tmp_path.resolve()} rw shared:1 - nfs4 server:/x rw\n"
    root = lay_out(tmp_path / "root", {"proc/self/mountinfo": mounts})
    (volume,) = survey_volumes({"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}, tmp_path, root)
    assert volume.kind == "nfs4"
    assert volume.free_inodes is None or 0 < volume.free_inodes <= (volume.total_inodes or 0)


def test_a_rank_table_is_read_and_one_that_is_not_there_is_told(tmp_path):
    assert survey_rank_table({}) is None
    (tmp_path / "table.json").write_text("{}")
    found = survey_rank_table({"RANK_TABLE_FILE": str(tmp_path / "table.json")})
    gone = survey_rank_table({"RANK_TABLE_FILE": str(tmp_path / "gone.json")})
    assert found is not None
    assert gone is not None
    assert (found.text, gone.text) == ("{}", None)
