"""The update formulas of optimizers, one a file, over flat tensors: `Formula`. The emulated NPU uses the same ones."""
