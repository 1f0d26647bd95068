"""`torch_npu.testing`: what tests of NPU code are written with."""
