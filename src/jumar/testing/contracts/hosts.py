"""Machines as `Host` values, to plant single faults into: a server without a fault, and two that are little known."""

from __future__ import annotations

from jumar.advise.doctor.machine.host import Host, Npu, Package, Python, Volume
from jumar.base.host import Cores, Memory
from jumar.base.text.sizes import GIB

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

UNKNOWN = Host(system="Plan9")
"""A machine of which nothing can be read."""
