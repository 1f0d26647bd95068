"""`import torch_npu` before torch, in processes that a plan is for and that have no NPU of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jumar.device import DevicePlan


@pytest.mark.parametrize("first", ["", "import torch\n"])
def test_a_process_that_only_reads_options_has_no_torch_npu(first: str) -> None:
    code = (
        "from jumar.capture.plans.claims import claim\nclaim()\n"
        f"{first}try:\n    import torch_npu\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    environment = os.environ | DevicePlan(real="never").to_environment()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("torch_npu"), done.stderr[-800:]
    assert done.returncode == 0
