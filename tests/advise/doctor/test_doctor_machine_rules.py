"""Edges of the checks of the machine: what is a fault, what is not, and what is only said not to be checked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import LAPTOP, NPU_SERVER, look, outcomes_of, with_environ

from jumar.advise.checks import NotChecked
from jumar.advise.doctor.machine.host import Host, Package, Volume
from jumar.advise.doctor.machine.pairs import drivers_of, order, pair_of, pythons_of
from jumar.advise.doctor.machine.parts import Chip, DeviceProcess, Power, Rendezvous, Smi
from jumar.advise.doctor.rules.hccl_interface import chosen_interfaces
from jumar.base.host import Cores, Memory
from jumar.base.text import GIB


def severities(code: str, host: Host) -> list[str]:
    return [finding.severity.label for finding in look(code, host)]


def with_parts(host: Host, part: str, **fields: object) -> Host:
    return replace(host, **{part: replace(getattr(host, part), **fields)})


# --- power


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (Power(preferences={"performance": 64}), []),
        (Power(preferences={"default": 64}), []),
        (Power(preferences={"power": 2, "performance": 62}), ["The energy preference is power on 2 cores."]),
        (Power(is_boost_off=True), ["Turbo (boost) is off."]),
        (Power(capped_percent=60.0), ["The highest allowed frequency is 60 % of what the processor can."]),
        (Power(capped_percent=100.0), []),
        (Power(tuned_profile="throughput-performance"), []),
        (Power(tuned_profile="powersave"), ["The profile of tuned is powersave."]),
        (Power(platform_profile="low-power"), ["The firmware's power mode is low-power."]),
    ],
)
def test_what_slows_the_processor_is_named(power, said):
    assert [finding.message for finding in look("JM819", replace(NPU_SERVER, power=power))] == said


def test_powersave_of_intel_pstate_is_explained_and_tuned_is_used_where_it_is():
    host = replace(
        NPU_SERVER, governors={"powersave": 64}, power=Power(driver="intel_pstate", tuned_profile="balanced")
    )
    (finding,) = look("JM812", host)
    assert "still scales" in finding.why
    assert finding.action.startswith("tuned-adm profile throughput-performance")


# --- cores


@pytest.mark.parametrize(
    ("mode", "cores", "asked"),
    [("2", 64, 8 + 8 + 8 + 50), ("2", 8, 8 + 8 + 4 + 50), ("1", 16, 2 * 8 + 8), ("1", 24, None), ("0", 1, None)],
)
def test_cores_for_tuning_are_those_of_the_guides_formulas(mode, cores, asked):
    host = with_environ(replace(NPU_SERVER, cores=Cores(num_cores=64, num_usable=cores)), AOE_MODE=mode)
    found = [finding.evidence["asked_cores"] for finding in look("JM820", host) if "asked_cores" in finding.evidence]
    assert found == ([asked] if asked else [])


def test_the_formula_takes_the_variable_the_file_and_the_processes():
    host = with_parts(
        with_environ(NPU_SERVER, AOE_MODE="1", TE_PARALLEL_COMPILER="4", LOCAL_WORLD_SIZE="8"),
        "software",
        parallel_tunings=16,
    )
    (finding,) = look("JM820", host)
    assert finding.evidence["asked_cores"] == 8 * (2 * 16 + 4)


def test_a_bound_process_is_told_while_tuning_only():
    bound = with_parts(NPU_SERVER, "placement", allowed_cores=tuple(range(8)))
    assert look("JM820", bound) == []
    assert "bound to 8 of 64 cores" in look("JM820", with_environ(bound, AOE_MODE="1"))[-1].message


@pytest.mark.parametrize(("value", "most"), [("32", 25), ("25", None), ("8", None), ("x", None)])
def test_compilers_are_bounded_by_cores_and_devices(value, most):
    findings = look("JM821", with_environ(NPU_SERVER, TE_PARALLEL_COMPILER=value))
    assert [finding.action for finding in findings] == ([f"export TE_PARALLEL_COMPILER={most}"] if most else [])


@pytest.mark.parametrize(
    ("local", "quota", "num"), [("8", 64.0, 0), ("8", 16.0, 1), (None, 8.0, 0), (None, 6.0, 1), ("1", 4.0, 0)]
)
def test_each_process_needs_four_cores(local, quota, num):
    host = replace(NPU_SERVER, cores=Cores(num_cores=64, num_usable=64, quota=quota))
    assert len(look("JM822", with_environ(host, LOCAL_WORLD_SIZE=local))) == num


def test_cores_on_a_machine_without_an_npu_are_enough():
    assert look("JM822", replace(LAPTOP, cores=Cores(num_cores=2))) == []


@pytest.mark.parametrize(
    ("cores", "nodes", "devices", "num"),
    [
        (tuple(range(64)), (0, 1), {"a": 0}, 0),
        (tuple(range(32, 64)), (1,), {"a": 0}, 1),
        (tuple(range(32, 64)), (0, 1), {"a": 0, "b": 1}, 0),
        (tuple(range(32)), (1,), {"a": 0}, 1),
    ],
)
def test_a_process_away_from_all_devices_is_told(cores, nodes, devices, num):
    host = with_parts(NPU_SERVER, "placement", allowed_cores=cores, allowed_nodes=nodes, device_nodes=devices)
    assert len(look("JM823", host)) == num


# --- memory and disks


@pytest.mark.parametrize(("mode", "share", "num"), [(2, 0.95, 1), (2, 0.5, 0), (0, 0.95, 0), (1, 0.95, 0)])
def test_strict_commitments_that_are_used_up_are_told(mode, share, num):
    memory = Memory(total_bytes=GIB, available_bytes=GIB, commit_limit_bytes=100, committed_bytes=int(100 * share))
    assert len(look("JM824", with_parts(replace(NPU_SERVER, memory=memory), "kernel", overcommit=mode))) == num


def volume(**fields: object) -> Host:
    plain = {"path": "/x", "purpose": "logs and kernel caches", "total_bytes": 999 * GIB, "free_bytes": 500 * GIB}
    return replace(NPU_SERVER, volumes=(Volume(**{**plain, **fields}),))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "ext4"}, []),
        ({"kind": "nfs4"}, ["advice"]),
        ({"kind": "nfs4", "purpose": "the working folder"}, []),
        ({"kind": "fuse.sshfs"}, ["advice"]),
        ({"is_read_only": True}, ["error"]),
        ({"is_noexec": True, "purpose": "temporary files"}, ["warning"]),
        ({"is_noexec": True, "purpose": "the working folder"}, []),
        ({"free_inodes": 50, "total_inodes": 1_000_000}, ["warning"]),
        ({"free_inodes": 50, "total_inodes": 100}, []),
        ({"free_inodes": None, "total_inodes": None}, []),
    ],
)
def test_file_systems(fields, expected):
    assert severities("JM825", volume(**fields)) == expected


# --- versions


@pytest.mark.parametrize(
    ("npu", "cann", "expected"),
    [
        ("2.10.0", "9.1.0", []),
        ("2.10.0", "9.0.0", []),
        ("2.8.0.post2", "8.5.0", []),
        ("2.8.0.post2+git1234", "8.5.1", []),
        ("2.6.0", "8.2.RC2", []),
        ("2.8.0.post2", "8.2.RC1", ["warning"]),
        ("2.6.0", "8.0.0", ["info"]),
        ("2.6.0", "8.5.0", ["advice"]),
        ("2.1.0.post8", "8.0.RC3.beta1", []),
        ("2.1.0.post8", "7.0.0", ["warning"]),
        ("2.1.0.post10", "8.0.RC1", ["warning"]),
        ("2.1.0.post10", "8.0.RC2", ["info"]),
    ],
)
def test_torch_npu_and_cann_as_pairs(npu, cann, expected):
    host = with_parts(NPU_SERVER, "software", cann=cann)
    host = replace(host, python=replace(host.python, torch_npu=Package(installed=True, version=npu)))
    assert severities("JM826", host) == expected


@pytest.mark.parametrize("version", ["2.10.0.post99", "", "9.9.9"])
def test_a_version_that_no_table_names_is_not_checked(version):
    host = replace(NPU_SERVER, python=replace(NPU_SERVER.python, torch_npu=Package(installed=True, version=version)))
    (outcome,) = outcomes_of("JM826", host)
    assert isinstance(outcome, NotChecked)


def test_a_torch_npu_that_imports_proves_its_python():
    host = replace(NPU_SERVER, python=replace(NPU_SERVER.python, version="3.9.1"))
    assert look("JM827", host) == []
    gone = replace(host, python=replace(host.python, torch_npu=Package()))
    (finding,) = look("JM827", gone)
    assert "Python 3.13" in finding.action


@pytest.mark.parametrize(
    ("driver", "firmware", "cann", "expected"),
    [
        ("26.0.rc1", "8.5.0.1.100", "9.1.0", []),
        ("27.1.0", "8.5.0.1.100", "9.1.0", []),
        ("25.0.rc1.1", "8.5.0.1.100", "9.1.0", ["warning"]),
        ("25.0.rc1.1", "8.5.0.1.100", "9.0.1", []),
        ("24.1.rc1", "8.5.0.1.100", "8.2.RC1", ["warning"]),
        ("24.1.rc2.2", "8.5.0.1.100", "8.2.RC1", []),
        ("26.0.rc1", "6.4.0.1", "9.1.0", ["error"]),
        ("26.0.rc1", "8.10.0.1", "9.1.0", ["error"]),
    ],
)
def test_driver_firmware_and_cann_as_pairs(driver, firmware, cann, expected):
    assert (
        severities("JM828", with_parts(NPU_SERVER, "software", driver=driver, firmware=firmware, cann=cann)) == expected
    )


def test_the_driver_is_known_from_npu_smi_where_its_file_is_not_in_the_container():
    host = with_parts(NPU_SERVER, "software", driver="", firmware="", firmware_range=())
    outcomes = outcomes_of("JM828", replace(host, smi=Smi(version="25.0.rc1")))
    assert [type(one).__name__ for one in outcomes] == ["NotChecked", "Finding"]


def test_releases_are_ordered_as_the_vendor_means_them():
    releases = ["7.0.0", "8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.5.0", "9.0.0"]
    assert sorted([*releases[3:], *releases[:3]], key=order) == releases
    assert order("8.0.RC3.beta1") == order("8.0.RC3")


def test_tables_name_their_source():
    pair, drivers = pair_of("2.6.0"), drivers_of("8.5.0")
    assert pair is not None
    assert drivers is not None
    assert "COMPATIBILITY" in pair.source
    assert drivers.source.startswith("https://www.hiascend.com/")
    assert pythons_of((2, 6)) == ("3.9", "3.10", "3.11")


# --- devices


def test_processes_of_npu_smi_and_of_proc_are_told_once():
    smi = Smi(version="26.0", chips=(), processes=(DeviceProcess(pid=1, name="python", npu=0, memory_mb=30784),))
    holders = (DeviceProcess(pid=1, name="python", npu=0), DeviceProcess(pid=2, name="x", npu=1))
    (finding,) = look("JM829", replace(NPU_SERVER, smi=smi, holders=holders))
    assert finding.message == "Processes hold devices: python (1) on NPU 0, 30784 MB; x (2) on NPU 1."


@pytest.mark.parametrize(("used", "num"), [(3379, 0), (30000, 1)])
def test_memory_in_use_without_a_process_is_told(used, num):
    chips = (Chip(npu=0, chip=0, health="OK", used_mb=used, total_mb=65536),)
    assert len(look("JM829", replace(NPU_SERVER, smi=Smi(version="26.0", chips=chips)))) == num


@pytest.mark.parametrize(("health", "expected"), [("OK", []), ("Warning", ["warning"]), ("Critical", ["error"])])
def test_the_health_of_a_chip(health, expected):
    chips = (Chip(npu=0, chip=0, health=health),)
    assert severities("JM830", replace(NPU_SERVER, smi=Smi(version="26.0", chips=chips))) == expected


# --- distributed runs


def test_ports_are_judged_for_runs_with_several_ranks_only():
    open_ports = with_parts(NPU_SERVER, "kernel", reserved_ports=())
    assert look("JM834", open_ports) == []
    (finding,) = look("JM834", with_environ(open_ports, WORLD_SIZE="8"))
    assert finding.action == "sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031 (as root)"
    kept = with_parts(open_ports, "kernel", reserved_ports=((50000, 50000),))
    assert "=50000,60000-60031 " in look("JM834", with_environ(kept, WORLD_SIZE="8"))[0].action
    low = with_environ(open_ports, WORLD_SIZE="8", HCCL_IF_BASE_PORT="20000")
    assert look("JM834", low) == []


def test_a_port_of_hccl_that_is_taken_is_a_warning():
    host = with_parts(with_environ(NPU_SERVER, WORLD_SIZE="8"), "network", listening=frozenset({60007}))
    assert severities("JM834", host) == ["warning"]


def at(environ: dict[str, str], **fields: object) -> Host:
    place = Rendezvous(**{"address": "node-0", "port": 29500, "resolved": ("192.168.0.10",), **fields})
    host = with_environ(NPU_SERVER, MASTER_ADDR=place.address, MASTER_PORT="29500", **environ)
    return with_parts(host, "network", rendezvous=place)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (at({"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}), ""),
        (at({"RANK": "8", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, resolved=("10.9.9.9",), answers=True), ""),
        (
            at({"RANK": "8", "WORLD_SIZE": "16"}, resolved=("10.9.9.9",), answers=False),
            "Nothing answers at node-0:29500",
        ),
        (at({"RANK": "0", "WORLD_SIZE": "16"}, resolved=("10.9.9.9",)), "is none of its addresses"),
        (at({"RANK": "0"}, resolved=()), "stands for no address here"),
        (at({"NNODES": "2"}, address="127.0.0.1", resolved=("127.0.0.1",)), "is this machine itself"),
        (at({}, address="localhost", resolved=("127.0.0.1",)), ""),
        (with_parts(at({"RANK": "0"}), "network", listening=frozenset({29500})), "MASTER_PORT=29500 is taken"),
        (
            with_environ(at({"RANK": "0"}, port=None), MASTER_PORT="70000"),
            "must be a port from 1 to 65535; got '70000'",
        ),
        (with_environ(at({"RANK": "0"}, port=None), MASTER_PORT=None), "MASTER_PORT is not set"),
        (with_environ(NPU_SERVER, WORLD_SIZE="8", RANK="0"), "MASTER_ADDR is not"),
        (with_environ(NPU_SERVER, WORLD_SIZE="8"), ""),
    ],
)
def test_the_meeting_place(host, said):
    messages = [finding.message for finding in look("JM836", host)]
    assert [said in message for message in messages] == ([True] if said else []), messages


def test_a_name_server_that_does_not_answer_is_not_an_error():
    (outcome,) = outcomes_of("JM836", at({"RANK": "0"}, resolved=None))
    assert isinstance(outcome, NotChecked)


@pytest.mark.parametrize(
    ("text", "exact", "chosen"),
    [
        ("eth", False, ["eth0", "eth1"]),
        ("=eth0", False, ["eth0"]),
        ("=eth", False, []),
        ("^eth", False, ["enp1", "lo"]),
        ("^=eth0", False, ["enp1", "eth1", "lo"]),
        ("enp,eth1", False, ["enp1", "eth1"]),
        ("eth0", True, ["eth0"]),
        ("eth", True, []),
    ],
)
def test_interfaces_are_chosen_as_hccl_chooses(text, exact, chosen):
    assert chosen_interfaces(text, ("enp1", "eth0", "eth1", "lo"), is_exact=exact) == chosen


@pytest.mark.parametrize(
    ("environ", "num"),
    [
        ({"HCCL_IF_IP": "192.168.0.10"}, 0),
        ({"HCCL_IF_IP": "192.168.0.99"}, 1),
        ({"HCCL_IF_IP": "eth0"}, 1),
        ({"HCCL_IF_IP": "127.0.0.1"}, 0),
        ({"HCCL_IF_IP": "127.0.0.1", "NNODES": "2"}, 1),
        ({"HCCL_SOCKET_IFNAME": "=eth0"}, 0),
        ({"HCCL_SOCKET_IFNAME": "=enp189s0f0"}, 1),
        ({"GLOO_SOCKET_IFNAME": "eth9"}, 1),
        ({"GLOO_SOCKET_IFNAME": "lo", "NNODES": "2"}, 1),
        ({"GLOO_SOCKET_IFNAME": "lo"}, 0),
    ],
)
def test_addresses_and_interfaces_must_be_this_machines(environ, num):
    assert len(look("JM837", with_environ(NPU_SERVER, **environ))) == num


@pytest.mark.parametrize("code", ["JM838", "JM839", "JM842"])
def test_what_only_matters_between_machines_is_silent_on_one(code):
    broken = with_parts(NPU_SERVER, "network", names={"node-0": ("127.0.1.1",)}, device_addresses={})
    assert look(code, with_parts(broken, "clock", is_synchronised=False)) == []


@pytest.mark.parametrize(
    ("environ", "num"),
    [
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 2),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, 1),
        ({"SLURM_NNODES": "4"}, 4),
        ({}, 1),
    ],
)
def test_machines_are_counted_by_the_launchers_variables(environ, num):
    assert with_environ(NPU_SERVER, **environ).num_nodes == num


# --- the rest


@pytest.mark.parametrize(
    ("environ", "num"),
    [
        ({"LANG": "zh_CN.GB18030"}, 1),
        ({"LANG": "zh_CN.UTF-8"}, 0),
        ({"LANG": "zh_CN.utf8"}, 0),
        ({"LANG": "C"}, 0),
        ({"LC_ALL": "C", "LANG": "zh_CN.GBK"}, 0),
        ({"LC_ALL": "de_DE.ISO-8859-1@euro"}, 1),
        ({"LANG": "zh_CN.GBK", "PYTHONUTF8": "1"}, 0),
        ({}, 0),
    ],
)
def test_encodings_other_than_utf_8_are_told(environ, num):
    assert len(look("JM843", with_environ(NPU_SERVER, **environ))) == num


def test_the_library_without_room_is_loaded_first_beside_those_that_were():
    error = "ImportError: /usr/lib/libgomp.so.1: cannot allocate memory in static TLS block"
    broken = Package(installed=True, error=error)
    host = replace(NPU_SERVER, python=replace(NPU_SERVER.python, torch=broken))
    assert (
        look("JM844", with_environ(host, LD_PRELOAD="/a.so"))[0].action
        == "export LD_PRELOAD=/usr/lib/libgomp.so.1:/a.so"
    )


@pytest.mark.parametrize(
    ("fields", "num"),
    [
        ({}, 0),
        ({"libc": ("musl", "1.2")}, 1),
        ({"libc": ("glibc", "2.17")}, 1),
        ({"architecture": "riscv64"}, 1),
        ({"abi_flags": "t"}, 1),
    ],
)
def test_systems_without_wheels_are_told_where_a_package_is_missing(fields, num):
    host = with_parts(NPU_SERVER, "software", **fields)
    assert look("JM845", host) == []
    missing = replace(host, python=replace(host.python, torch_npu=Package()))
    assert len(look("JM845", missing)) == num
