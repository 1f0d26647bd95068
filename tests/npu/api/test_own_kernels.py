"""Kernels that a library or script compiles itself, on the emulated NPU: refused in a sentence, by name."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from jumar.npu.api.alias import own_kernels

FILES = {
    "deepspeed/__init__.py": "",
    "deepspeed/accelerator/__init__.py": "",
    "deepspeed/ops/__init__.py": "",
    "deepspeed/ops/op_builder/__init__.py": "",
    "deepspeed/accelerator/npu_accelerator.py": """
        import importlib
        class NPU_Accelerator:
            def get_op_builder(self, class_name):
                module = importlib.import_module("deepspeed.ops.op_builder.npu.builder")
                return getattr(module, class_name, module.NotImplementedBuilder)
            def create_op_builder(self, class_name):
                return self.get_op_builder(class_name)()
    """,
    "deepspeed/ops/op_builder/npu/__init__.py": "",
    "deepspeed/ops/op_builder/npu/builder.py": """
        import os
        class OpBuilder:
            def __init__(self, name):
                self.name = name
            def load(self, verbose=False):
                raise RuntimeError("g++ failed")
            def is_compatible(self, verbose=False):
                return True
        class NPUOpBuilder(OpBuilder):
            def __init__(self, name):
                super().__init__(name)
                self.path = os.environ["ASCEND_HOME_PATH"]
        class FusedAdamBuilder(NPUOpBuilder):
            def __init__(self):
                super().__init__("fused_adam")
            def load(self, verbose=True):
                return "in Python"
        class CPUAdamBuilder(NPUOpBuilder):
            def __init__(self):
                super().__init__("cpu_adam")
        class NotImplementedBuilder(NPUOpBuilder):
            def __init__(self):
                super().__init__("none")
            def load(self, verbose=True):
                raise ValueError("This op had not been implemented")
    """,
}


@pytest.fixture
def accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package laid out as DeepSpeed's builders are, as the emulated NPU changes it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    known = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "deepspeed"}
    finders = list(sys.meta_path)
    for name in known:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    load, inline, extension = cpp_extension.load, cpp_extension.load_inline, cpp_extension.CUDAExtension
    own_kernels.install()
    from deepspeed.accelerator.npu_accelerator import NPU_Accelerator  # type: ignore[import-not-found, unused-ignore]

    yield NPU_Accelerator()
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepspeed"]:
        del sys.modules[name]
    sys.modules.update(known)
    cpp_extension.load, cpp_extension.load_inline, cpp_extension.CUDAExtension = load, inline, extension


def test_a_kernel_in_python_needs_no_cann(accelerator: Any) -> None:
    assert accelerator.create_op_builder("FusedAdamBuilder").load() == "in Python"


@pytest.mark.parametrize(
    ("builder", "reason", "instead"),
    [
        ("CPUAdamBuilder", "is compiled with CANN", "torch_adam"),
        ("TransformerBuilder", "has no NPU kernel", "torch.nn.TransformerEncoderLayer"),
        ("SparseAttnBuilder", "has no NPU kernel", "scaled_dot_product_attention"),
        ("SomeNewBuilder", "has no NPU kernel", "operators of PyTorch"),
    ],
)
def test_a_kernel_that_is_compiled_or_missing_is_refused_by_name(
    accelerator: Any, builder: str, reason: str, instead: str
) -> None:
    made = accelerator.create_op_builder(builder)
    assert not made.is_compatible()
    with pytest.raises(NotImplementedError, match=rf"DeepSpeed's {builder} {reason}.*use .*{instead}"):
        made.load()


@pytest.mark.usefixtures("accelerator")
def test_cuda_sources_are_refused_as_on_a_machine_without_the_toolkit() -> None:
    refused = r"the CUDA extension 'ops' is made of CUDA sources"
    with pytest.raises(OSError, match=refused):
        cpp_extension.load("ops", ["a.cpp", "a.cu"])
    cpp: Any = cpp_extension
    with pytest.raises(OSError, match=refused):
        cpp.load_inline("ops", "int f();", cuda_sources="__global__ void k() {}")
    with pytest.raises(OSError, match=refused):
        cpp.CUDAExtension("ops", ["a.cu"])
    assert torch.zeros(1).sum() == 0
