"""Every check of the doctor keeps the contract that Jumar ships for checks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import LAPTOP, NPU_SERVER, with_environ

from jumar.advise.checks import finders
from jumar.advise.doctor.machine.examination import RULES
from jumar.advise.doctor.machine.host import Host, Npu, Package, Volume
from jumar.base.host import Cores, Memory
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
