"""Programs that choose between vendors' devices by themselves: the conversion leaves them, and they run on the NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from convert_cases import outcome

HEAD = "import torch\nfrom known import is_npu_available, is_torch_npu_available\n\n"
IDIOMS = {
    "if_else": """
if is_npu_available():
    torch.npu.set_device(0)
    device = torch.device("npu", 0)
else:
    torch.cuda.set_device(0)
    device = torch.device("cuda", 0)
""",
    "chain": """
if torch.cuda.is_available():
    device = "cuda"
elif hasattr(torch, "npu") and torch.npu.is_available():
    device = "npu"
else:
    device = "cpu"
""",
    "flag": """
IS_NPU = is_torch_npu_available()
device = "npu" if IS_NPU else "cuda"
backend = "hccl" if IS_NPU else "nccl"
assert backend == "hccl"
""",
    "functions": """
is_cuda_available = torch.cuda.is_available()


def device_name():
    if is_cuda_available:
        return "cuda"
    elif is_torch_npu_available():
        return "npu"
    return "cpu"


def collective():
    if is_npu_available():
        return "hccl"
    return "nccl"


device = device_name()
getattr(torch, device).empty_cache()
assert collective() == "hccl"
""",
    "three_vendors": """
def empty_cache():
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        torch.xpu.empty_cache()
    elif is_npu_available():
        torch.npu.empty_cache()
    else:
        torch.cuda.empty_cache()


empty_cache()
device = "npu" if is_npu_available() else "cuda"
""",
    "by_its_device": """
device = torch.ones(1, device="npu" if is_npu_available() else "cuda").device
if device.type == "npu":
    torch.npu.synchronize()
elif device.type == "cuda":
    torch.cuda.synchronize()
""",
}


@pytest.mark.parametrize("name", IDIOMS)
@pytest.mark.parametrize("target", ["npu", "agnostic"])
def test_they_are_left_alone(name: str, target: str) -> None:
    source = HEAD + IDIOMS[name]
    assert outcome(source, target=target).after.decode() == source


@pytest.mark.slow
def test_they_choose_the_npu_on_the_emulated_one(tmp_path: Path) -> None:
    (tmp_path / "known.py").write_text(
        "import torch\n\n\ndef is_npu_available():\n    return hasattr(torch, 'npu') and torch.npu.is_available()\n\n\n"
        "is_torch_npu_available = is_npu_available\n"
    )
    for name, text in IDIOMS.items():
        (tmp_path / f"{name}.py").write_text(HEAD + text)
    runs = "\n".join(f"import {name}\nprint(str({name}.device).split(':')[0])" for name in IDIOMS)
    (tmp_path / "all.py").write_text(runs)
    command = [sys.executable, "-c", "from jumar.cli.main import run; run()", "run", "all.py"]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["npu"] * len(IDIOMS), done.stderr
