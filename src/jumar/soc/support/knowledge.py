"""Facts of PyTorch's source that the tables do not hold: short lists, kept by hand, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

NAMESPACES: Mapping[str, str] = {
    "c10d": "a collective: HCCL carries it out between the devices",
    "c10d_functional": "a collective: HCCL carries it out between the devices",
    "_c10d_functional": "a collective: HCCL carries it out between the devices",
    "profiler": "a mark for the profiler: it computes nothing",
}
"""Namespaces of operators that need no kernel of the operator tables."""

SLOW_PATH_BEFORE_A2 = ("_foreach_", "scaled_dot_product_attention")
"""Operators registered for aclnn only whose adapter code itself takes PyTorch's composite path on chips before
Ascend910B1 (op-plugin tests the SoC there)."""

SAME_AS: Mapping[str, str] = {
    # Other objects, the same behaviour: thin wrappers, subclasses with another default, deprecated spellings.
    "torch.amp.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.amp.custom_fwd": "torch.cuda.amp.custom_fwd",
    "torch.amp.custom_bwd": "torch.cuda.amp.custom_bwd",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.nn.functional.relu_": "torch.nn.functional.relu",
    "torch.nn.functional.sigmoid": "torch.sigmoid",
    "torch.nn.functional.tanh": "torch.tanh",
    "torch.nn.functional.upsample": "torch.nn.functional.interpolate",
    "torch.optim.lr_scheduler.LRScheduler": "torch.optim.lr_scheduler.StepLR",
    "torch.optim.lr_scheduler._LRScheduler": "torch.optim.lr_scheduler.StepLR",
}
"""API → the API of the vendor's list that it is another spelling of."""

ON_DEVICE_NAMES: Mapping[str, tuple[str, str]] = {
    "torch.Tensor.cuda": ("torch.Tensor.npu", "call .npu() or .to(device)"),
    "torch.Tensor.is_cuda": ("torch.Tensor.is_npu", "test .is_npu or .device.type"),
    "torch.nn.Module.cuda": ("torch.nn.Module.npu", "call .npu() or .to(device)"),
    "torch.OutOfMemoryError": ("torch.OutOfMemoryError", "the same class on every device"),
    "torch.cuda.OutOfMemoryError": ("torch.OutOfMemoryError", "the device-independent name of the same class"),
}
"""API → (its name on the NPU side, what to do): present in torch_npu, in no table under this name."""

METHOD_OPERATORS: Mapping[str, str] = dict.fromkeys(
    ("bfloat16", "bool", "byte", "char", "cpu", "double", "float", "half", "int", "long", "short", "type", "type_as"),
    "_to_copy",
) | {"new_tensor": "_to_copy", "numpy": "_to_copy", "tolist": "_to_copy", "__getitem__": "slice.Tensor"}
"""Tensor method written in Python or C++ → the operator that does its work."""
