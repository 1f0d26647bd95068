"""Every check of the doctor keeps the contract that Jumar ships for checks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import LAPTOP, NPU_SERVER, with_environ

from jumar.advise.checks import finders
from jumar.advise.doctor.machine.examination import RULES
from jumar.advise.doctor.machine.host import Host, Npu, Package, Volume
from jumar.advise.doctor.machine.parts import (
    Chip,
    Clock,
    DeviceProcess,
    Limits,
    Power,
    RankTable,
    Smi,
)
from jumar.base.host import Cores, Memory, Pressure
from jumar.base.text.sizes import GIB, MIB
from jumar.testing import DoctorCheckContract

CHECKS = {module.RULE.code: module for module in finders(RULES)}


def python_with(host: Host, **packages: Package) -> Host:
    return replace(host, python=replace(host.python, **packages))


BROKEN: dict[str, Host] = {
    "JM801": python_with(LAPTOP, torch=Package()),
    "JM802": python_with(NPU_SERVER, torch_npu=Package(installed=True, error="ImportError: libhccl.so")),
    "JM803": python_with(NPU_SERVER, torch=Package(installed=True, version="2.6.0")),
    "JM804": with_environ(NPU_SERVER, ASCEND_HOME_PATH=None),
    "JM805": replace(NPU_SERVER, npu=replace(NPU_SERVER.npu, unreadable_nodes=("/dev/davinci0",))),
    "JM806": with_environ(NPU_SERVER, ASCEND_RT_VISIBLE_DEVICES="1,0"),
    "JM807": with_environ(NPU_SERVER, CUDA_VISIBLE_DEVICES="2", ASCEND_RT_VISIBLE_DEVICES=None),
    "JM808": with_environ(NPU_SERVER, ASCEND_LAUNCH_BLOCKING="1"),
    "JM809": with_environ(NPU_SERVER, INF_NAN_MODE_ENABLE="0"),
    "JM810": with_environ(NPU_SERVER, PYTORCH_NPU_ALLOC_CONF="expandable_segment:True"),
    "JM811": with_environ(NPU_SERVER, HCCL_EXEC_TIMEOUT="3600"),
    "JM812": replace(NPU_SERVER, governors={"performance": 60, "powersave": 4}),
    "JM813": replace(NPU_SERVER, cores=Cores(num_cores=64, num_usable=64, quota=4.0)),
    "JM814": with_environ(NPU_SERVER, OMP_NUM_THREADS="64", LOCAL_WORLD_SIZE="8"),
    "JM815": replace(
        NPU_SERVER, shared_memory=Volume(path="/dev/shm", purpose="", total_bytes=64 * MIB, free_bytes=64 * MIB)
    ),
    "JM816": replace(NPU_SERVER, memory=Memory(total_bytes=512 * GIB, available_bytes=GIB)),
    "JM817": replace(NPU_SERVER, volumes=(Volume(path="/home/u", purpose="a", total_bytes=999 * GIB, free_bytes=GIB),)),
    "JM818": replace(NPU_SERVER, open_files=1024),
    "JM819": replace(NPU_SERVER, power=Power(preferences={"balance_power": 64})),
    "JM820": with_environ(NPU_SERVER, AOE_MODE="2"),
    "JM821": with_environ(NPU_SERVER, TE_PARALLEL_COMPILER="32"),
    "JM822": with_environ(NPU_SERVER, LOCAL_WORLD_SIZE="32", OMP_NUM_THREADS="1"),
    "JM823": replace(NPU_SERVER, placement=replace(NPU_SERVER.placement, device_nodes={"0000:C1:00.0": 2})),
    "JM824": replace(NPU_SERVER, pressure=Pressure(some_percent=50.0, full_percent=30.0)),
    "JM825": replace(
        NPU_SERVER, volumes=(replace(NPU_SERVER.volumes[0], purpose="temporary files", is_read_only=True),)
    ),
    "JM826": replace(NPU_SERVER, software=replace(NPU_SERVER.software, cann="8.5.0")),
    "JM827": python_with(NPU_SERVER, torch_npu=Package(), torch=Package(installed=True, version="2.2.0")),
    "JM828": replace(NPU_SERVER, software=replace(NPU_SERVER.software, driver="25.0.rc1.1")),
    "JM829": replace(NPU_SERVER, holders=(DeviceProcess(pid=4711, name="python", npu=0),)),
    "JM830": replace(NPU_SERVER, smi=Smi(version="26.0", chips=(Chip(npu=1, chip=0, health="Alarm"),))),
    "JM831": replace(NPU_SERVER, limits=Limits(processes=1024.0, stack_bytes=8.0 * MIB)),
    "JM832": replace(NPU_SERVER, kernel=replace(NPU_SERVER.kernel, huge_pages="never")),
    "JM833": replace(NPU_SERVER, kernel=replace(NPU_SERVER.kernel, entropy=30)),
    "JM834": with_environ(
        replace(NPU_SERVER, kernel=replace(NPU_SERVER.kernel, reserved_ports=())), WORLD_SIZE="2", OMP_NUM_THREADS="1"
    ),
    "JM835": replace(NPU_SERVER, rank_table=RankTable(path="table.json", text="{}")),
    "JM836": with_environ(NPU_SERVER, RANK="0", WORLD_SIZE="2"),
    "JM837": with_environ(NPU_SERVER, HCCL_IF_IP="10.9.9.9"),
    "JM838": with_environ(
        replace(NPU_SERVER, network=replace(NPU_SERVER.network, names={"node-0": ("127.0.1.1",)})), NNODES="2"
    ),
    "JM839": with_environ(
        replace(NPU_SERVER, network=replace(NPU_SERVER.network, device_addresses={0: "192.168.100.100"})), NNODES="2"
    ),
    "JM842": with_environ(replace(NPU_SERVER, clock=Clock(is_synchronised=False)), NNODES="2"),
    "JM843": with_environ(NPU_SERVER, LANG="zh_CN.GB18030"),
    "JM844": python_with(
        NPU_SERVER,
        torch_npu=Package(installed=True, error="/lib/libgomp.so.1: cannot allocate memory in static TLS block"),
    ),
    "JM845": replace(
        python_with(NPU_SERVER, torch_npu=Package()), software=replace(NPU_SERVER.software, libc=("glibc", "2.17"))
    ),
    "JM840": with_environ(NPU_SERVER, HCCL_CONNECT_TIMEOUT="60"),
    "JM841": with_environ(NPU_SERVER, HCCL_CONECT_TIMEOUT="1200"),
}
"""For each check a machine with the fault that it looks for."""


class TestChecks(DoctorCheckContract):
    @pytest.fixture(autouse=True, params=sorted(CHECKS))
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.check = CHECKS[request.param]
        self.broken = [BROKEN[request.param]]


def test_every_check_has_a_broken_machine() -> None:
    assert set(CHECKS) == set(BROKEN)
    assert Npu() == Host().npu
