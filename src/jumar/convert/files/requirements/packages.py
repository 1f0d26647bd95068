"""Packages that belong to CUDA, the packages that replace them on an NPU machine, and the releases of torch_npu."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jumar.base.findings import Severity

TORCH_PACKAGES = frozenset({"torch", "torchvision", "torchaudio", "torchtext", "torchdata"})
"""Packages that PyTorch builds for CUDA and for the CPU under one name."""

NPU_RELEASES = frozenset(
    {"1.11.0", "2.0.1", "2.1.0", "2.2.0", "2.3.1", "2.4.0", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.0", "2.10.0"}
    | {"2.11.0", "2.12.0", "2.13.0"}
)
"""Releases of torch that torch_npu was released for (Ascend/pytorch, COMPATIBILITY.en.md)."""

_COUNTERPARTS = (
    (r"nvidia-(cublas|cuda-[a-z]+|cudnn|cufft|cufile|curand|cusolver|cusparse(lt)?|nccl|nvjitlink|nvtx|nvshmem)(-cu\d+)?",
     "CUDA's build of torch brings it; the NPU's libraries come with CANN."),
    (r"pytorch-cuda|cudatoolkit(-dev)?|cuda(-[a-z0-9-]+)?|cudnn|nccl", "CANN takes the place of CUDA; install it."),
    (r"pynvml|nvidia-ml-py3?|py3nvml|gpustat|nvitop", "npu-smi info shows the NPUs."),
    (r"apex|nvidia-apex", "torch.amp and torch_npu.optim.NpuFused* do the same, or Ascend's apex."),
    (r"flash[-_]attn|flash[-_]attention", "torch.nn.functional.scaled_dot_product_attention has an NPU kernel."),
    (r"bitsandbytes", "torch_npu.optim.NpuFusedAdamW for the optimizer; 4-bit and 8-bit weights need another library."),
    (r"xformers", "torch.nn.functional.scaled_dot_product_attention has an NPU kernel."),
    (r"(pytorch-)?triton(-nightly)?", "triton-ascend compiles Triton kernels for NPUs."),
    (r"cupy(-cuda\w+)?|pycuda|numba-cuda", "Write it with PyTorch operators."),
    (r"onnxruntime-gpu", "onnxruntime-cann runs ONNX models on NPUs; or ATC compiles them."),
    (r"tensorrt[\w-]*|torch[-_]tensorrt", "ATC of CANN compiles ONNX models for inference."),
    (r"nvidia-dali[\w-]*", "torchvision's transforms in DataLoader workers, or the DVPP operators."),
    (r"faiss-gpu(-cu\d+)?", "faiss-cpu, or Ascend's index library."),
    (r"transformer[-_]engine([-_]\w+)?", "plain PyTorch layers, or MindSpeed's."),
    (r"mamba[-_]ssm|causal[-_]conv1d", "its PyTorch reference implementation."),
    (r"tensorflow-gpu", "tensorflow with the NPU's adapter."),
    (r"jax\[cuda\w*\]|jaxlib-cuda\w*", "JAX has no NPU back end."),
    (r"auto-gptq|autoawq|exllamav2|vllm|flashinfer[\w-]*|deep-gemm|liger-kernel|unsloth", "Check for an NPU build."),
    (r"torch[-_](scatter|sparse|cluster|spline[-_]conv)|spconv[\w-]*|dgl-cu\w+|MinkowskiEngine|mmcv-full",
     "Its CUDA kernels do not run on an NPU: build it for the CPU, or use an NPU build."),
    (r"nvidia-[a-z0-9-]+", "find out what it is used for; it is NVIDIA's."),
    (r"cuml[\w-]*|cudf[\w-]*|rmm[\w-]*|cugraph[\w-]*", "RAPIDS needs CUDA; use pandas and scikit-learn."),
)  # fmt: skip

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), hint) for pattern, hint in _COUNTERPARTS)
_LOCAL_TAG = re.compile(r"\+(cu\d+|rocm[\d.]+)")
_INDEX = re.compile(r"(download\.pytorch\.org/whl(?:/nightly|/test)?/)(cu\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageVerdict:
    """What is said about a package that belongs to CUDA."""

    message: str
    action: str
    severity: Severity = Severity.WARNING


def judge_package(name: str) -> PackageVerdict | None:
    """Judge the package called `name` (with its extras); None for one that has nothing to do with CUDA."""
    for pattern, hint in _COMPILED:
        if pattern.fullmatch(name):
            return PackageVerdict(message=f"{name} belongs to CUDA.", action=f"On an NPU: {hint}")
    return None


def cuda_tag(text: str) -> re.Match[str] | None:
    """Return the CUDA tag of a version (`+cu118`), None where there is none."""
    return _LOCAL_TAG.search(text)


def cuda_index(text: str) -> re.Match[str] | None:
    """Return PyTorch's CUDA index in a text; group 2 is the part that names CUDA."""
    return _INDEX.search(text)
