"""Stands on the module path of processes that should have the emulated NPU, for those that import torch_npu first.

Importing torch brings the emulator up (its autoload reads the environment), which answers for torch_npu from then on.
A process that only reads a launcher's options brings up none: there the import fails as without torch_npu.
"""

import importlib
import importlib.util
import sys

import torch  # noqa: F401  # its autoload is what this module is for

del sys.modules[__name__]
_found = importlib.util.find_spec("torch_npu")
if _found is None or _found.origin == __file__:
    raise ModuleNotFoundError("No module named 'torch_npu' in a process that has no NPU", name="torch_npu")
sys.modules[__name__] = importlib.import_module("torch_npu")
