"""The planted bottlenecks of the emulated NPU are found and marked as estimates; the clean loop has none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from planted_npu import FAULTS

from jumar.advise.bottlenecks import Advice
from jumar.advise.look import look

pytestmark = pytest.mark.slow
ATTEMPTS = 3
ALWAYS = {"JM428", "JM430"}
"""A small network on an NPU is bound by launches, and its products are fed by conversions: the clean one has both."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profiles. Those of a busy machine are made again: there the steps of the clean loop jitter by themselves."""
    script = Path(__file__).with_name("planted_npu.py")
    for _ in range(ATTEMPTS):
        path = tmp_path_factory.mktemp("npu")
        done = subprocess.run([sys.executable, str(script), str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (clean,) = look(path / "clean")
        if "JM420" not in codes(clean):
            break
    return path


def codes(advice: Advice) -> set[str]:
    assert "emulated: its times are estimates" in advice.device
    assert all(finding.evidence["is_estimate"] for finding in advice.findings if finding.evidence)
    return {finding.code for finding in advice.findings if finding.severity.label != "info"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bottleneck_on_the_npu_is_found(fault: str, folder: Path) -> None:
    (advice,) = look(folder / fault)
    assert FAULTS[fault][2] in codes(advice)


def test_the_clean_loop_on_the_npu_is_not_accused_of_them(folder: Path) -> None:
    (advice,) = look(folder / "clean")
    assert codes(advice) <= ALWAYS
