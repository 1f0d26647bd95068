"""Machines as `Host` values, to plant single faults into: a server without a fault, and two that are little known."""

from __future__ import annotations

from jumar.advise.doctor.machine.host import Host, Npu, Package, Python, Volume
from jumar.advise.doctor.machine.parts import (
    Chip,
    Clock,
    Kernel,
    Limits,
    Network,
    Placement,
    Power,
    Smi,
    Software,
)
from jumar.base.host import Cores, Memory, Pressure
from jumar.base.text.sizes import GIB, MIB

CANN = "/usr/local/Ascend/ascend-toolkit/latest"

HEALTHY = Host(
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
        torch_npu=Package(installed=True, version="2.10.0"),
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
    power=Power(driver="acpi-cpufreq", is_boost_off=False),
    pressure=Pressure(some_percent=0.0, full_percent=0.0),
    limits=Limits(processes=float("inf"), locked_bytes=float("inf"), stack_bytes=8.0 * MIB, core_bytes=0.0),
    kernel=Kernel(
        huge_pages="always",
        overcommit=0,
        entropy=256,
        release="5.10.0-60.18.0.50.oe2203.aarch64",
        local_ports=(32768, 60999),
        reserved_ports=((60000, 60031),),
    ),
    placement=Placement(
        allowed_cores=tuple(range(64)),
        node_cores={0: tuple(range(32)), 1: tuple(range(32, 64))},
        allowed_nodes=(0, 1),
        device_nodes={"0000:C1:00.0": 0, "0000:C2:00.0": 1},
    ),
    software=Software(
        driver="26.0.rc1",
        firmware="8.5.0.1.100",
        firmware_range=(("7.0.0", "8.9.9"),),
        cann="9.1.0",
        cann_file=f"{CANN}/aarch64-linux/ascend_toolkit_install.info",
        libc=("glibc", "2.35"),
        architecture="aarch64",
    ),
    smi=Smi(
        version="26.0.rc1",
        chips=(
            Chip(npu=0, chip=0, name="910B3", health="OK", bus="0000:C1:00.0", used_mb=3379, total_mb=65536),
            Chip(npu=1, chip=0, name="910B3", health="OK", bus="0000:C2:00.0", used_mb=3385, total_mb=65536),
        ),
    ),
    holders=(),
    network=Network(
        host_name="node-0",
        addresses={"lo": ("127.0.0.1", "::1"), "eth0": ("192.168.0.10",)},
        interfaces=("eth0", "lo"),
        names={"localhost": ("127.0.0.1",), "node-0": ("192.168.0.10",)},
        listening=frozenset({22}),
        device_addresses={0: "192.168.100.100", 1: "192.168.100.101"},
    ),
    clock=Clock(is_synchronised=True, source="adjtimex"),
)
"""An NPU server without a fault."""

LAPTOP = Host(
    python=Python(version="3.11.7", torch=Package(installed=True, version="2.13.0")),
    cores=Cores(num_cores=8, num_usable=8),
)
"""A machine without anything of an NPU, of which little can be read."""

UNKNOWN = Host(system="Plan9")
"""A machine of which nothing can be read."""
