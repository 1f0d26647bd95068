"""`@triton.jit` kernels on the emulated NPU: Triton's own interpreter runs them over the memory of npu tensors."""

IS_OPERATOR = "jumar_is_operator"
"""Attribute of a `run` of Triton's kernels whose launches PyTorch's dispatcher sees."""
