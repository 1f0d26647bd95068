"""What the tables cannot say and PyTorch's source does: a short list, kept by hand, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

OTHER_DEVICE_OPERATORS: Mapping[str, str] = {
    # PyTorch chooses these by device: a recording made on a CPU or a GPU shows them, an NPU never calls them.
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_backward": "scaled_dot_product_attention",
    "_scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
    "_scaled_dot_product_efficient_attention_backward": "scaled_dot_product_attention",
    "_scaled_dot_product_cudnn_attention": "scaled_dot_product_attention",
    "_scaled_dot_product_cudnn_attention_backward": "scaled_dot_product_attention",
    "_scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "_scaled_dot_product_fused_attention_overrideable_backward": "scaled_dot_product_attention",
    "mkldnn_rnn_layer": "lstm.input",
    "mkldnn_rnn_layer_backward": "lstm.input",
    "_cudnn_rnn": "lstm.input",
    "_cudnn_rnn_backward": "lstm.input",
    "_thnn_fused_lstm_cell_backward": "_thnn_fused_lstm_cell_backward_impl",
    "mkldnn_convolution": "convolution",
    "cudnn_convolution": "convolution",
    "_slow_conv2d_forward": "convolution",
    "_slow_conv2d_backward.output_mask": "convolution_backward",
    "slow_conv3d_forward": "convolution",
    "_nnpack_spatial_convolution": "convolution",
    "mkldnn_linear": "addmm",
    "mkldnn_max_pool2d": "max_pool2d_with_indices",
    "cudnn_batch_norm": "native_batch_norm",
    "cudnn_batch_norm_backward": "native_batch_norm_backward",
    "miopen_batch_norm": "native_batch_norm",
    "_batch_norm_with_update": "native_batch_norm",
    "_cudnn_ctc_loss": "_ctc_loss",
    "_use_cudnn_ctc_loss": "_ctc_loss",
    "cudnn_grid_sampler": "grid_sampler_2d",
}
"""Operator of another device's implementation → the one whose support decides on an NPU."""

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
