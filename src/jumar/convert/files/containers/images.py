"""NVIDIA's container images and runtimes (JM124) in Dockerfiles, compose files and Kubernetes manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jumar.base.findings import Severity
from jumar.convert.files.config.entries import Entry
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.files.cuda_container import RULE

_CUDA_IMAGE = re.compile(
    r"(\S*/)?nvidia/\S+|\S*nvcr\.io/\S+|(\S*/)?\S*(cuda|cu\d{2,3}|tensorrt|(?<![a-z])gpu(?![a-z]))\S*", re.IGNORECASE
)
_IMAGE_KEYS = frozenset(
    {"image", "base_image", "base-image", "container", "container_image", "docker_image", "baseImage"}
)

IMAGE_ACTION = (
    "Build on quay.io/ascend/cann:VERSION-SOC-OS-PYTHON (SOC such as 910b or a3) and install torch, torch_npu of the"
    " same version and the sources; run it with the NPU's device nodes and driver:"
    " --device=/dev/davinci0 --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc"
    " -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro, or with the Ascend Docker Runtime"
    " and ASCEND_VISIBLE_DEVICES."
)
_RUNTIME_ACTION = (
    "Use the Ascend Docker Runtime (runtime: ascend, ASCEND_VISIBLE_DEVICES=0-7), or list the device nodes"
    " /dev/davinci0, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc and mount /usr/local/Ascend/driver."
)
_RESOURCE_ACTION = (
    "Ask for the same number of huawei.com/Ascend910, which the Ascend device plugin offers"
    " (huawei.com/Ascend310P for inference cards)."
)


def is_cuda_image(image: str) -> bool:
    """Tell whether the name of an image says that it holds CUDA."""
    return _CUDA_IMAGE.fullmatch(image.strip()) is not None


def image_proposal(span: tuple[int, int], image: str) -> Proposal:
    """Return the finding about a CUDA image."""
    return Proposal(rule=RULE, span=span, message=f"The image {image} is built for CUDA.", action=IMAGE_ACTION)


def container_proposals(entries: Sequence[Entry]) -> Iterator[Proposal]:
    """Yield the findings about a configuration's values that ask for CUDA images or NVIDIA's runtime."""
    for entry in entries:
        found = _one(entry)
        if found is not None:
            yield found


def _one(entry: Entry) -> Proposal | None:
    span, value = (entry.start, entry.end), entry.value
    if entry.key in _IMAGE_KEYS and is_cuda_image(value):
        return image_proposal(span, value)
    if entry.key.startswith("nvidia.com/"):
        message = f"{entry.key} asks Kubernetes for NVIDIA's GPUs."
        return Proposal(rule=RULE, span=entry.key_span or span, message=message, action=_RESOURCE_ACTION)
    if value == "nvidia" and entry.key in ("runtime", "runtimeClassName", "driver", "default-runtime"):
        return Proposal(
            rule=RULE, span=span, message=f"{entry.key} chooses NVIDIA's container runtime.", action=_RUNTIME_ACTION
        )
    if entry.key == "capabilities" and value.strip("\"'") in ("gpu", "nvidia"):
        return Proposal(rule=RULE, span=span, message="The container reserves GPUs.", action=_RUNTIME_ACTION)
    if value.startswith(("nvidia-tesla", "nvidia.com/")) or re.fullmatch(r"nvidia-[\w-]+gpu[\w-]*", value):
        return Proposal(
            rule=RULE, span=span, severity=Severity.ADVICE, message=f"{value!r} chooses machines with NVIDIA's GPUs.",
            action="Choose the label that the cluster gives its NPU machines.",
        )  # fmt: skip
    return None
