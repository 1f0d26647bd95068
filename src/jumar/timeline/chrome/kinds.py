"""Kineto's categories and names -> `Kind` and side."""

from __future__ import annotations

import re

from jumar.timeline.model.events import Kind, Side
from jumar.timeline.model.steps import MARK

DEVICE_PREFIX = re.compile(r"^(privateuse1|gpu|cuda|hip|xpu|mtia|hpu)_")
DEVICE_WORDS = {"kernel": Kind.KERNEL, "concurrent_kernel": Kind.KERNEL, "memcpy": Kind.COPY, "memset": Kind.COPY}
RUNTIME_WORDS = {"runtime", "driver"}
COLLECTIVE_KERNEL = re.compile(r"nccl|hccl|hcom_|rccl|oneccl", re.IGNORECASE)
COLLECTIVE_CALL = re.compile(
    r"(nccl|gloo|hccl|rccl|xccl|ucc|mpi):|(c10d|_c10d_functional|_c10d_functional_autograd)::|record_param_comms"
)
"""Calls of process groups, by the namespace of their library."""
COMPILES = re.compile(
    r".* \(dynamo_timed\)$|(dynamo|entire_frame_compile)$|\w+_data: .*compile_id="
    r"|aclopCompile|torch/_dynamo/convert_frame\.py\(\d+\): (__call__|_compile)$"
)
"""A run of `torch.compile`'s compiler or of the NPU's. In a `Torch-Compiled Region` what was compiled runs."""
SYNCHRONISES = re.compile(r"synchroni[sz]e", re.IGNORECASE)
COLLECTORS = {"Python GC", "<built-in function collect>"}
LOADER = re.compile(r"enumerate\((DataLoader|DataPipe)\)#")
HOST_NAMES = (
    (COLLECTIVE_CALL, Kind.COLLECTIVE), (COMPILES, Kind.COMPILE), (LOADER, Kind.DATA), (MARK, Kind.STEP),
)  # fmt: skip
OF_PROFILE = (
    (re.compile(r"gc generation "), Kind.COLLECTOR), (re.compile(r"(re)?compile "), Kind.COMPILE),
    (SYNCHRONISES, Kind.WAIT),
)  # fmt: skip
"""Events that `jumar profile` adds, in its category `jumar`. Its `loader next` is Kineto's own event again, and the
other stages of the loader run in workers: neither is another wait of the program."""
RANGES = ("Optimizer.", "Torch-Compiled Region: ")


def kind_and_side(category: str, name: str) -> tuple[Kind, Side]:
    """Return what an event of Kineto is, and whether it ran on the host or on a device."""
    word = DEVICE_PREFIX.sub("", category.lower())
    of_device = word != category.lower()
    if word in DEVICE_WORDS:
        return (Kind.COLLECTIVE if COLLECTIVE_KERNEL.search(name) else DEVICE_WORDS[word]), "device"
    if of_device and word == "user_annotation":
        return Kind.RANGE, "device"
    if of_device and word == "sync":
        return Kind.OTHER, "device"
    if word == "collective_comm":
        return Kind.COLLECTIVE, "device"
    if word in RUNTIME_WORDS:
        return _runtime(name), "host"
    return _host(word, name), "host"


def _runtime(name: str) -> Kind:
    if COMPILES.match(name):
        return Kind.COMPILE
    return Kind.WAIT if SYNCHRONISES.search(name) else Kind.RUNTIME


def _host(category: str, name: str) -> Kind:
    if category == "jumar":
        return next((kind for pattern, kind in OF_PROFILE if pattern.search(name)), Kind.OTHER)
    if category == "python_function":
        return Kind.COLLECTOR if name in COLLECTORS else Kind.COMPILE if COMPILES.match(name) else Kind.PYTHON
    if category not in {"cpu_op", "user_annotation", "operator"}:
        return Kind.OTHER
    for pattern, kind in HOST_NAMES:
        if pattern.match(name):
            return kind
    return Kind.RANGE if category == "user_annotation" or name.startswith(RANGES) else Kind.OPERATOR
