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

HOST_PREFIXES = (
    "torch.__",
    "torch._dynamo.",
    "torch.compiler.is_",
    "torch.hub.",
    "torch.jit.is_",
    "torch.multiprocessing.",
    "torch.overrides.",
    "torch.package.",
    "torch.serialization.",
    "torch.testing.",
    "torch.types.",
    "torch.utils.collect_env.",
    "torch.utils.data.",
    "torch.utils.tensorboard.",
    "torch.version.",
    "torch.xpu.",
    "torch.mps.",
    "torch.backends.mps.",
    "torch.backends.xpu.",
)
"""Prefixes of APIs that run on the host whatever the accelerator, or belong to another one and are answered there."""

HOST_NAMES = frozenset(
    """
    torch.Size torch.Generator torch.Tensor torch.autograd.Function torch.autograd.Variable torch.autograd.backward
    torch.autograd.function.Function torch.autograd.function.once_differentiable torch.autograd.variable.Variable
    torch.autograd.grad torch.autograd.gradcheck torch.autograd.profiler.record_function torch.profiler.record_function
    torch.optim.Optimizer torch.nn.modules.utils torch.jit.annotate torch.jit.ignore torch.jit.unused torch.jit.export
    torch.jit.Final torch.jit.interface torch.distributed.destroy_process_group torch.distributed.is_nccl_available
    torch.distributed.group torch.distributed.GroupMember torch.distributed.ProcessGroup torch.distributed.launch
    torch.distributed.run torch.distributed.Work torch.distributed.get_group_rank torch.distributed.rendezvous
    torch.Tensor.requires_grad_ torch.Tensor.register_hook torch.Tensor.retain_grad torch.Tensor.backward
    torch.Tensor.share_memory_ torch.Tensor.element_size torch.Tensor.data_ptr torch.Tensor.dim torch.Tensor.ndimension
    torch.Tensor.size torch.Tensor.numel torch.Tensor.nelement torch.Tensor.stride torch.Tensor.storage_offset
    torch.Tensor.is_contiguous torch.Tensor.storage torch.Tensor.untyped_storage torch.Tensor.get_device
    torch.Tensor.is_floating_point torch.Tensor.is_complex torch.Tensor.shape torch.Tensor.device torch.Tensor.dtype
    torch.get_device_module torch.get_autocast_dtype torch.is_autocast_enabled torch.set_autocast_enabled
    torch.clear_autocast_cache torch.get_default_device torch.use_deterministic_algorithms torch.is_autocast_available
    torch.typename torch.is_inference torch.is_grad_enabled torch.autograd.graph.saved_tensors_hooks
    """.split()
)
"""APIs of PyTorch that are Python or bookkeeping only: no device kernel decides whether they work."""
