"""combine_ddp is DistributedDataParallel: on 2 and 4 processes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("size", [2, 4])
def test_combined_gradients_are_averaged_as_by_ddp(size: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("amp_ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), str(size), str(port)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ranks = json.loads(done.stdout)
    for name, case in ranks[0].items():
        assert case["equal on all ranks"], name
        # Sums of two are equal in either order; of four, gloo's order depends on the length of a message.
        half = "O2" in name or name in {"overflow", "unused, combined"}
        assert case["apart"] <= (0 if size == 2 else 1e-2 if half else 1e-6), name
        assert case["unused stays"], name
    overflow = [case["overflow"] for case in ranks]
    assert [case["skips"] for case in overflow] == [[1, 1]] * size
    assert "6 of 6 gradients have NaN or Inf" in overflow[-1]["origins"][0]
    assert "a chip's flag or another rank says so" in overflow[0]["origins"][0]
