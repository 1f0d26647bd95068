"""Distributed training on emulated NPUs: HCCL, `torch_npu.distributed`, `torch_npu.multiprocessing`."""
