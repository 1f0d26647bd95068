"""Environment checks, each with its fault planted and without; what cannot be seen is never called fine."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace

import pytest
from hosts import CANN, LAPTOP, NPU_SERVER, look, outcomes_of, with_environ
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.checks import NotChecked, finders
from jumar.advise.doctor import examine
from jumar.advise.doctor.machine.examination import RULES, facts_of
from jumar.advise.doctor.machine.host import Host, Npu, Package, Volume
from jumar.advise.doctor.rules.visible_devices import VARIABLE
from jumar.base.findings import Finding, Severity
from jumar.base.host import Cores, Memory, cores, memory
from jumar.base.rules import HEADINGS, Registry, documentation, rules_of
from jumar.base.text import GIB, MIB


def severities(findings: list[Finding]) -> list[str]:
    return [finding.severity.label for finding in findings]


def python_with(host: Host, **fields) -> Host:
    return replace(host, python=replace(host.python, **fields))


def test_a_server_without_a_fault_has_no_finding_and_every_check_was_made():
    examination = examine(NPU_SERVER)
    assert [finding.message for finding in examination.findings] == []
    assert (examination.not_checked, examination.num_checked) == ((), len(finders(RULES)))
    assert examination.device == "Jumar uses the real NPU through torch_npu 2.10.0 (2 devices)."


def test_a_laptop_is_fine_and_says_what_was_not_checked():
    examination = examine(LAPTOP)
    assert [finding.message for finding in examination.findings] == []
    assert [item.code for item in examination.not_checked] == [
        *["JM803", "JM804", "JM805", "JM812", "JM813", "JM815", "JM816", "JM817"],
        *["JM819", "JM824", "JM825", "JM831"],
    ]
    assert examination.device == "Jumar uses its emulated NPU, because torch_npu is not installed."


def test_of_a_host_nothing_is_known_of_nothing_is_called_fine():
    examination = examine(Host(system="Plan9"))
    assert {item.code for item in examination.not_checked} >= {"JM812", "JM813", "JM815", "JM816", "JM817", "JM818"}
    assert [finding.code for finding in examination.findings] == ["JM801"]


def test_the_most_severe_finding_comes_first():
    host = with_environ(NPU_SERVER, ASCEND_RT_VISIBLE_DEVICES="1,0", HCCL_ALGO="ring", ASCEND_LAUNCH_BLOCKING="1")
    assert [finding.code for finding in examine(host).findings] == ["JM806", "JM808", "JM840", "JM811"]


@pytest.mark.parametrize("rule", rules_of("advise.doctor"), ids=lambda rule: rule.code)
def test_every_rule_is_documented_under_the_fixed_headings(rule):
    doc = inspect.cleandoc(documentation(rule))
    assert doc.startswith(f"{rule.code} {rule.name}.")
    assert [line[3:] for line in doc.splitlines() if line.startswith("## ")] == list(HEADINGS)


def test_the_rules_can_be_registered():
    assert len(Registry(rules_of("advise.doctor"))) == len({rule.code for rule in rules_of("advise.doctor")})


# --- torch and torch_npu


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        (Package(), ["error"]),
        (Package(installed=True, error="ImportError: libgomp.so.1"), ["error"]),
        (Package(installed=True, version="2.5.1"), ["warning"]),
        (Package(installed=True, version="2.14.0"), ["warning"]),
        (Package(installed=True, version="3.0.0a1"), ["warning"]),
        (Package(installed=True, version="2.6.0"), ["info"]),
        (Package(installed=True, version="2.13.1+cpu"), []),
    ],
)
def test_torch_must_import_and_be_in_range(package, expected):
    assert severities(look("JM801", python_with(LAPTOP, torch=package))) == expected


def test_another_torch_is_no_remark_where_the_real_npu_is_used():
    assert look("JM801", NPU_SERVER) == []


def test_a_torch_npu_that_does_not_import_is_an_error_with_the_remedy():
    broken = Package(installed=True, version="2.10.0", error="ImportError: libhccl.so: cannot open")
    (finding,) = look("JM802", python_with(NPU_SERVER, torch_npu=broken, num_npus=None))
    assert (finding.severity, "set_env.sh" in finding.action) == (Severity.ERROR, True)


def test_a_torch_npu_without_devices_is_an_error():
    (finding,) = look("JM802", python_with(NPU_SERVER, num_npus=0))
    assert finding.evidence["num_npus"] == 0


def test_an_npu_without_torch_npu_is_a_warning():
    (finding,) = look("JM802", python_with(NPU_SERVER, torch_npu=Package(), num_npus=None))
    assert (finding.severity.label, "torch-npu==2.10.0" in finding.action) == ("warning", True)


@pytest.mark.parametrize(
    ("torch", "npu", "num"),
    [("2.10.0", "2.10.0.post4", 0), ("2.10.1+cpu", "2.10.0.rc1", 0), ("2.10.0", "2.9.0", 1), ("2.1.0", "2.10.0", 1)],
)
def test_the_pair_must_share_the_first_two_numbers(torch, npu, num):
    host = python_with(
        NPU_SERVER, torch=Package(installed=True, version=torch), torch_npu=Package(installed=True, version=npu)
    )
    assert len(look("JM803", host)) == num


def test_a_version_that_cannot_be_read_is_not_checked():
    host = python_with(NPU_SERVER, torch_npu=Package(installed=True, version="unknown"))
    (outcome,) = outcomes_of("JM803", host)
    assert isinstance(outcome, NotChecked)


# --- CANN and the driver


def test_cann_that_was_not_sourced_is_an_error_with_the_command():
    (finding,) = look("JM804", with_environ(NPU_SERVER, ASCEND_HOME_PATH=None))
    assert finding.action == "source /usr/local/Ascend/ascend-toolkit/set_env.sh"


def test_either_variable_of_cann_will_do():
    assert look("JM804", with_environ(NPU_SERVER, ASCEND_HOME_PATH=None, ASCEND_TOOLKIT_HOME=CANN)) == []


def test_a_library_path_that_lost_cann_is_a_warning():
    assert severities(look("JM804", with_environ(NPU_SERVER, LD_LIBRARY_PATH="/usr/lib"))) == ["warning"]


def test_a_folder_of_cann_that_is_gone_is_an_error():
    host = replace(NPU_SERVER, npu=replace(NPU_SERVER.npu, missing_folders=("ASCEND_OPP_PATH=/old/opp",)))
    (finding,) = look("JM804", host)
    assert finding.message == "ASCEND_OPP_PATH names /old/opp, which is not a folder."


def test_torch_npu_without_any_cann_is_an_error():
    host = with_environ(replace(NPU_SERVER, npu=Npu()), ASCEND_HOME_PATH=None)
    assert severities(look("JM804", host)) == ["error"]


@pytest.mark.parametrize(
    ("npu", "expected"),
    [
        (Npu(npu_smi="/x"), ["error"]),
        (Npu(npu_smi="/x", device_nodes=("/dev/davinci0",), unreadable_nodes=("/dev/davinci0",)), ["error"]),
        (Npu(device_nodes=("/dev/davinci0",)), ["advice"]),
        (Npu(npu_smi="/x", device_nodes=("/dev/davinci0",)), []),
    ],
)
def test_the_driver_needs_device_files_that_open(npu, expected):
    assert severities(look("JM805", replace(NPU_SERVER, npu=npu))) == expected


# --- variables


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("1,0", "0,1"),
        ("0,1,1", "0,1"),
        ("0, 1", "0,1"),
        ("0;1", "0,1"),
        ("0,,1", "0,1"),
        ("0,1,", "0,1"),
        (" 0", "0"),
        ("-1", "1"),
        ("10,9", "9,10"),
    ],
)
def test_a_list_of_devices_that_hides_some_is_an_error_with_the_value_meant(value, wanted):
    (finding,) = look("JM806", with_environ(LAPTOP, **{VARIABLE: value}))
    assert (finding.severity, finding.action) == (Severity.ERROR, f"export {VARIABLE}={wanted}")


@pytest.mark.parametrize("value", ["", "all", ","])
def test_a_list_that_shows_no_device_is_an_error(value):
    (finding,) = look("JM806", with_environ(LAPTOP, **{VARIABLE: value}))
    assert "shows no device" in finding.message


def devices_torch_npu_sees(text: str) -> int:
    """What torch_npu makes of the variable on a machine of 100 devices, after its own source."""
    read = ""
    for character in text:
        if not (character.isascii() and character.isdigit()) and character != ",":
            break
        read += character
    numbers: list[int] = []
    for part in read.split(","):
        if not part:
            break
        numbers.append(int(part))
    rising = all(left < right for left, right in itertools.pairwise(numbers))
    return len(numbers) if rising else 0


@given(st.text(st.sampled_from("0123, ;x"), max_size=8))
def test_a_list_passes_exactly_when_torch_npu_sees_every_device_it_names(text):
    import re

    named = len(re.findall(r"\d+", text))
    is_clean = re.fullmatch(r"\d+(,\d+)*", text) is not None
    sees_all = is_clean and devices_torch_npu_sees(text) == named
    assert (look("JM806", with_environ(LAPTOP, **{VARIABLE: text})) == []) == sees_all


def test_a_variable_of_cuda_needs_its_counterpart():
    host = with_environ(NPU_SERVER, CUDA_VISIBLE_DEVICES="2", NCCL_SOCKET_IFNAME="eth0", ASCEND_RT_VISIBLE_DEVICES=None)
    assert [finding.evidence["counterpart"] for finding in look("JM807", host)] == [
        "ASCEND_RT_VISIBLE_DEVICES",
        "HCCL_SOCKET_IFNAME",
    ]
    assert look("JM807", with_environ(host, ASCEND_RT_VISIBLE_DEVICES="2", HCCL_SOCKET_IFNAME="eth0")) == []


def test_a_variable_of_cuda_is_only_advice_where_there_is_no_npu():
    assert severities(look("JM807", with_environ(LAPTOP, CUDA_VISIBLE_DEVICES="0"))) == ["advice"]


@pytest.mark.parametrize(
    ("name", "slow", "fast"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "1", "0"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "0", "3"),
        ("ASCEND_GLOBAL_LOG_LEVEL", " 1 ", "4"),
        ("TASK_QUEUE_ENABLE", "0", "2"),
        ("PYTORCH_NO_NPU_MEMORY_CACHING", "1", "0"),
        ("ACL_OP_COMPILER_CACHE_MODE", "disable", "enable"),
        ("DUMP_GE_GRAPH", "2", "0"),
    ],
)
def test_a_setting_for_debugging_is_a_warning(name, slow, fast):
    assert severities(look("JM808", with_environ(NPU_SERVER, **{name: slow}))) == ["warning"]
    assert look("JM808", with_environ(NPU_SERVER, **{name: fast})) == []


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"INF_NAN_MODE_ENABLE": "0"}, "refused"),
        ({"INF_NAN_MODE_FORCE_DISABLE": "1"}, "65504"),
        ({"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}, "65504"),
        ({"INF_NAN_MODE_ENABLE": "1", "INF_NAN_MODE_FORCE_DISABLE": "0"}, None),
    ],
)
def test_saturation_is_a_warning(variables, word):
    findings = look("JM809", with_environ(NPU_SERVER, **variables))
    assert [word in finding.message for finding in findings] == ([True] if word else [])


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ("expandable_segments:True", None, []),
        ("max_split_size_mb:64,expandable_segments:True", None, []),
        ("expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:8]", None, []),
        (None, "expandable_segments:True", []),
        ("expandable_segments:True", "max_split_size_mb:64", ["error"]),
        ("expandable_segment:True", None, ["warning"]),
        ("pin_memory_expandable_segments:True", None, ["advice"]),
        ("expandable_segments:False", None, ["advice"]),
        (None, None, ["advice"]),
    ],
)
def test_the_allocator_is_set_once_with_known_names_and_segments_that_grow(own, shared, expected):
    host = with_environ(NPU_SERVER, PYTORCH_NPU_ALLOC_CONF=own, PYTORCH_ALLOC_CONF=shared)
    assert severities(look("JM810", host)) == expected


def test_a_misspelt_name_is_answered_with_the_right_one():
    (finding,) = look("JM810", with_environ(LAPTOP, PYTORCH_NPU_ALLOC_CONF="expandable_segment:True"))
    assert finding.action == "Write expandable_segments."


@pytest.mark.parametrize(
    ("variables", "codes"),
    [
        ({"HCCL_EXEC_TIMEOUT": "3600"}, ["warning"]),
        ({"HCCL_EXEC_TIMEOUT": "3600", "HCCL_EVENT_TIMEOUT": "3668"}, []),
        ({"HCCL_EXEC_TIMEOUT": "3600", "HCCL_EVENT_TIMEOUT": "0"}, []),
        ({"HCCL_CONNECT_TIMEOUT": "2min"}, ["warning"]),
        ({"HCCL_CONNECT_TIMEOUT": "600"}, []),
        ({"HCCL_ALGO": "level0:ring", "HCCL_RDMA_TC": "132"}, ["info", "info"]),
    ],
)
def test_variables_of_the_collectives_fit_together(variables, codes):
    assert severities(look("JM811", with_environ(NPU_SERVER, **variables))) == codes


# --- the host


def test_cores_that_are_not_at_their_highest_frequency_are_counted():
    host = replace(NPU_SERVER, governors={"performance": 60, "powersave": 4})
    (finding,) = look("JM812", host)
    assert finding.evidence == {"powersave": 4}


@pytest.mark.parametrize(("quota", "num"), [(4.0, 1), (0.5, 1), (64.0, 0), (float("inf"), 0)])
def test_a_quota_below_the_visible_cores_is_a_warning(quota, num):
    assert len(look("JM813", replace(NPU_SERVER, cores=Cores(num_cores=64, num_usable=64, quota=quota)))) == num


@pytest.mark.parametrize(
    ("threads", "processes", "cores", "action"),
    [
        ("64", None, 64.0, None),
        ("65", None, 64.0, "export OMP_NUM_THREADS=64"),
        ("16", "8", 64.0, "export OMP_NUM_THREADS=8"),
        ("8", "8", 64.0, None),
        ("8", None, 4.0, "export OMP_NUM_THREADS=4"),
        ("4,2", None, 64.0, None),
        ("many", None, 64.0, "unset OMP_NUM_THREADS, or give it the number of cores."),
        ("0", None, 64.0, "unset OMP_NUM_THREADS, or give it the number of cores."),
    ],
)
def test_threads_times_processes_fit_the_cores(threads, processes, cores, action):
    host = with_environ(NPU_SERVER, OMP_NUM_THREADS=threads, LOCAL_WORLD_SIZE=processes)
    findings = look("JM814", replace(host, cores=Cores(num_cores=64, num_usable=64, quota=cores)))
    assert [finding.action for finding in findings] == ([action] if action else [])


@pytest.mark.parametrize(
    ("total", "free", "num"), [(64 * MIB, 64 * MIB, 1), (GIB, GIB, 0), (16 * GIB, 10 * MIB, 1), (16 * GIB, GIB, 0)]
)
def test_shared_memory_must_hold_batches(total, free, num):
    shared = Volume(path="/dev/shm", purpose="", total_bytes=total, free_bytes=free)
    assert len(look("JM815", replace(NPU_SERVER, shared_memory=shared))) == num


@pytest.mark.parametrize(
    ("known", "num"),
    [
        (Memory(total_bytes=64 * GIB, available_bytes=3 * GIB), 1),
        (Memory(total_bytes=64 * GIB, available_bytes=5 * GIB), 0),
        (Memory(total_bytes=512 * GIB, available_bytes=20 * GIB), 1),
        (Memory(machine_bytes=512 * GIB, total_bytes=2 * GIB, available_bytes=2 * GIB, limit_bytes=2 * GIB), 1),
        (Memory(machine_bytes=512 * GIB, total_bytes=64 * GIB, available_bytes=64 * GIB, limit_bytes=64 * GIB), 0),
    ],
)
def test_memory_must_be_available_within_the_containers_limit(known, num):
    assert len(look("JM816", replace(NPU_SERVER, memory=known))) == num


CONTAINERS = {
    "cgroup v2": {
        "sys/fs/cgroup/memory.max": str(8 * GIB),
        "sys/fs/cgroup/memory.current": str(8 * GIB - 50 * MIB),
        "sys/fs/cgroup/memory.stat": f"anon {7 * GIB}\ninactive_file {50 * MIB}\n",
        "sys/fs/cgroup/cpu.max": "50000 100000",
    },
    "cgroup v2, below the host's tree": {
        "proc/self/cgroup": "0::/docker/4f2a\n",
        "sys/fs/cgroup/cpu.max": "max 100000",
        "sys/fs/cgroup/docker/memory.max": "max",
        "sys/fs/cgroup/docker/memory.current": str(90 * GIB),
        "sys/fs/cgroup/docker/4f2a/memory.max": str(8 * GIB),
        "sys/fs/cgroup/docker/4f2a/memory.current": str(8 * GIB - 100 * MIB),
        "sys/fs/cgroup/docker/4f2a/cpu.max": "50000 100000",
    },
    "cgroup v1": {
        "proc/self/cgroup": "9:memory:/docker/4f2a\n4:cpu,cpuacct:/docker/4f2a\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(8 * GIB),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(8 * GIB - 50 * MIB),
        "sys/fs/cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {50 * MIB}\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
    },
}


@pytest.fixture(params=CONTAINERS.values(), ids=CONTAINERS)
def container(request, tmp_path):
    """A container with 100 MiB of 8 GiB left and half a core, on a machine with 400 of 512 GiB free."""
    meminfo = f"MemTotal: {512 * GIB // 1024} kB\nMemAvailable: {400 * GIB // 1024} kB\n"
    for name, text in {"proc/meminfo": meminfo, **request.param}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return replace(NPU_SERVER, memory=memory(tmp_path), cores=cores(tmp_path))


def test_a_container_that_is_nearly_full_is_seen_on_a_machine_with_memory_left(container):
    (finding,) = look("JM816", container)
    assert finding.message == "100 MiB of the container's 8 GiB of memory are available."
    assert dict(facts_of(container))["Memory"] == "100 MiB available of 8 GiB"


def test_the_quota_of_a_container_is_seen(container):
    (finding,) = look("JM813", container)
    assert finding.evidence["quota_cores"] == 0.5
    assert ", of which 0.5 may be used" in dict(facts_of(container))["Cores"]


@pytest.mark.parametrize(("free", "expected"), [(GIB, ["warning"]), (10 * GIB, ["advice"]), (100 * GIB, [])])
def test_disks_must_have_room(free, expected):
    volumes = (Volume(path="/", purpose="temporary files", total_bytes=999 * GIB, free_bytes=free),)
    assert severities(look("JM817", replace(NPU_SERVER, volumes=volumes))) == expected


@pytest.mark.parametrize(("limit", "num"), [(1024, 1), (4096, 0), (None, 0)])
def test_files_must_be_allowed_to_be_open(limit, num):
    assert len(look("JM818", replace(NPU_SERVER, open_files=limit))) == num


def test_every_finding_says_what_to_do():
    host = with_environ(
        replace(LAPTOP, open_files=256, cores=Cores(num_cores=64, quota=1.0), governors={"powersave": 64}),
        **{VARIABLE: "1,0", "CUDA_VISIBLE_DEVICES": "0", "INF_NAN_MODE_ENABLE": "0", "OMP_NUM_THREADS": "64"},
        HCCL_ALGO="x",
        DUMP_GE_GRAPH="2",
    )
    findings = examine(host).findings
    assert len({finding.code for finding in findings}) == 9
    assert all(finding.action and finding.message.endswith(".") for finding in findings)
