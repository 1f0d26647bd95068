"""Views that differ from their memory by a bit only: conjugated and negated ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import jumar
from jumar.recording import Recording


def test_a_lazily_conjugated_view_is_recorded_with_its_own_values(tmp_path: Path) -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    with jumar.record(tmp_path / "recording", values="tensors"):
        (value * 1).conj().clone()
    recording = Recording.open(tmp_path / "recording")
    rows = {row.name: recording.tensors(row)["output.0"] for row in recording.rows(0)}
    np.testing.assert_array_equal(rows["aten::_conj"], value.conj().resolve_conj().numpy())
    np.testing.assert_array_equal(rows["aten::clone"], value.conj().resolve_conj().numpy())
