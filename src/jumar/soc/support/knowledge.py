"""Facts of PyTorch's source that the tables do not hold: short lists, kept by hand, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

NAMESPACES: Mapping[str, str] = {
    "c10d": "a collective: HCCL carries it out between the devices",
    "c10d_functional": "a collective: HCCL carries it out between the devices",
    "_c10d_functional": "a collective: HCCL carries it out between the devices",
    "fsdp": "PyTorch makes it of other operators, on every device",
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

SPARSE_OPERATORS: Mapping[str, str] = {
    "torch.spmm": "mm",
    "torch.dsmm": "mm",
    "torch.hsmm": "hspmm",
    "torch.smm": "sspaddmm",
    "torch.hspmm": "hspmm",
    "torch.saddmm": "sspaddmm",
    "torch.sspaddmm": "sspaddmm",
    "torch.sparse.mm": "addmm",
    "torch.sparse.addmm": "addmm",
    "torch.sparse.sampled_addmm": "sparse_sampled_addmm",
    "torch.sparse.sum": "_sparse_sum",
    "torch.sparse.softmax": "_sparse_softmax",
    "torch.sparse.log_softmax": "_sparse_log_softmax",
    "torch.Tensor.smm": "sspaddmm",
    "torch.Tensor.sspaddmm": "sspaddmm",
    "torch.Tensor.sparse_mask": "sparse_mask",
}
"""Functions of sparse tensors alone → the operator that PyTorch's dispatcher calls with them (seen on the CPU)."""
