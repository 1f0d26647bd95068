"""`torch_npu.testing`: tools for tests of NPU code."""
