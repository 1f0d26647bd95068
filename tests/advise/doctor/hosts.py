"""Hosts for the checks: one on which everything is as it should be, to plant single faults into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jumar.advise.checks import NotChecked, finders
from jumar.advise.doctor.examination import RULES
from jumar.advise.doctor.host import Host, Npu, Package, Python, Volume
from jumar.base.findings import Finding
from jumar.base.host import Cores, Memory
from jumar.base.text import GIB

CANN = "/usr/local/Ascend/ascend-toolkit/latest"

NPU_SERVER = Host(
    environ={
        "ASCEND_HOME_PATH": CANN,
        "LD_LIBRARY_PATH": f"/usr/lib:{CANN}/lib64",
        "ASCEND_RT_VISIBLE_DEVICES": "0,1",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
        "OMP_NUM_THREADS": "8",
    },
    python=Python(
        version="3.11.7",
        torch=Package(installed=True, version="2.10.0+cpu"),
        torch_npu=Package(installed=True, version="2.10.0.post4"),
        num_npus=2,
    ),
    npu=Npu(
        cann_folders=("/usr/local/Ascend/ascend-toolkit",),
        npu_smi="/usr/local/sbin/npu-smi",
        device_nodes=("/dev/davinci0", "/dev/davinci1"),
    ),
    cores=Cores(num_cores=64, num_usable=64, quota=float("inf")),
    governors={"performance": 64},
    memory=Memory(total_bytes=512 * GIB, available_bytes=400 * GIB),
    shared_memory=Volume(path="/dev/shm", purpose="", total_bytes=256 * GIB, free_bytes=250 * GIB),
    volumes=(Volume(path="/home/u", purpose="the working folder", total_bytes=999 * GIB, free_bytes=500 * GIB),),
    open_files=65536,
)
"""An NPU server without a fault."""

LAPTOP = Host(
    python=Python(version="3.11.7", torch=Package(installed=True, version="2.13.0")),
    cores=Cores(num_cores=8, num_usable=8),
)
"""A machine without anything of an NPU, of which little can be read."""


def with_environ(host: Host, **variables: str | None) -> Host:
    """Return the host with variables set, or unset where None."""
    merged = {**host.environ, **variables}
    return replace(host, environ={name: value for name, value in merged.items() if value is not None})


def look(code: str, host: Host) -> list[Finding]:
    """Return the findings of one rule; it must have been checked."""
    outcomes = outcomes_of(code, host)
    assert not any(isinstance(outcome, NotChecked) for outcome in outcomes), outcomes
    return outcomes


def outcomes_of(code: str, host: Host) -> list[Any]:
    return list(next(module for module in finders(RULES) if module.RULE.code == code).find(host))
