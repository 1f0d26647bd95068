"""Stands for the adapter of TensorFlow 2 on the CPU."""

from jumar.tfadapter.bridge.device import NpuDevice, global_options, npu_run_context, open, set_npu_loop_size
from jumar.tfadapter.bridge.install import watch_child
from jumar.tfadapter.bridge.rounding import keep_dtype_scope
from npu_device import compat, distribute, npu_device, ops, train

watch_child(takes_v1=False)
