"""`torch_npu.contrib` and `torch_npu.optim` have the vendor's names, with the vendor's signatures."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest

from jumar.device import DevicePlan, activate
from jumar.soc.support import public_api

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

SIGNATURES = {
    name: entry.signature
    for name, entry in public_api.public_names().items()
    if name.startswith(("torch_npu.contrib.", "torch_npu.optim."))
}


def found(name: str) -> Any:
    """Return what a dotted name is: the longest module of it, then attributes; functions before modules."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def parameters(signature: str) -> str:
    """Return a written signature without its annotations."""
    text = signature.replace("<required parameter>", "required")
    function = ast.parse(f"def f{text}: pass").body[0]
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.unparse(function.args)


def test_every_name_is_covered():
    assert len(SIGNATURES) > 200


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_the_signature_is_the_vendors(name):
    function = found(name)
    if inspect.isbuiltin(function):
        pytest.skip("PyTorch's Function.apply tells no signature from torch 2.15 on")
    actual = inspect.signature(function)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in actual.parameters.values()]
    written = str(actual.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    assert parameters(written) == parameters(SIGNATURES[name])


SCRIPT = """
import torch
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
import torch_npu
from torch_npu.contrib.function import roll
from torch_npu.contrib.module.channel_shuffle import ChannelShuffle
from torch_npu.optim.npu_fused_sgd import NpuFusedSGD

shuffle = torch_npu.contrib.ChannelShuffle(8, split_shuffle=False).npu()
assert type(shuffle) is ChannelShuffle
weight = torch.ones(1, 4, 2, 2).npu().requires_grad_()
optimizer = torch_npu.optim.NpuFusedSGD([weight], lr=0.5)
assert type(optimizer) is NpuFusedSGD
shuffle(weight, weight).sum().backward()
optimizer.step()
assert weight.unique().tolist() == [0.0], weight
assert torch_npu.contrib.function.roll is roll is torch_npu.contrib.roll
print("done")
"""


def test_scripts_reach_them_through_torch_npu():
    result = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("done\n", "")
