"""Stands on the module path of processes that should have the emulated NPU, for those that import torch_npu first.

Importing torch brings the emulator up (its autoload reads the environment), which answers for torch_npu from then on.
"""

import importlib
import sys

import torch  # noqa: F401  # its autoload is what this module is for

del sys.modules[__name__]
sys.modules[__name__] = importlib.import_module("torch_npu")
