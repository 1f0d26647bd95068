"""`torch_npu.multiprocessing`."""
