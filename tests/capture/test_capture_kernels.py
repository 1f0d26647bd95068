"""A launch that PyTorch's dispatcher does not see is named by the recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.base.lazy import _ChangingFinder
from jumar.capture.watch import kernels
from jumar.npu.ops.triton import IS_OPERATOR

JIT = """
class JITFunction:
    def __init__(self, name): self.__name__ = name
    def run(self, *args, **kwargs): return 'launched'
"""


@pytest.fixture
def jit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the file of a library named triton, which nothing has imported."""
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").write_text("")
    monkeypatch.setattr(kernels, "_watched", [])
    # Without the change that an emulated NPU, which an earlier test may have started, makes to the real library.
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not isinstance(one, _ChangingFinder)])
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder / "jit.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]


def test_a_launch_past_the_dispatcher_is_named_and_a_warm_up_is_not(jit: Path) -> None:
    jit.write_text(JIT)
    kernels.watch_kernels()
    from triton.runtime.jit import JITFunction

    JITFunction("warmed").run(1, warmup=True)
    assert kernels.unseen_kernels() == ""
    assert JITFunction("softmax").run(1, warmup=False) == "launched"
    assert kernels.unseen_kernels().endswith("does not see: softmax")
    kernels.watch_kernels()
    assert kernels.unseen_kernels() == ""


def test_a_launch_that_is_an_operator_is_not_named(jit: Path) -> None:
    jit.write_text(f"{JIT}\nJITFunction.run.{IS_OPERATOR} = True\n")
    kernels.watch_kernels()
    from triton.runtime.jit import JITFunction

    JITFunction("softmax").run(1, warmup=False)
    assert kernels.unseen_kernels() == ""
