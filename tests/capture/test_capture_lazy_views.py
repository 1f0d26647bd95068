"""Views that differ from their memory by a bit only: conjugated and negated ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import jumar
from jumar.capture.notes.memory import borrowed
from jumar.recording import Recording, sketch


def test_a_lazily_conjugated_view_is_recorded_with_its_own_values(tmp_path: Path) -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    with jumar.record(tmp_path / "recording", values="tensors"):
        (value * 1).conj().clone()
    recording = Recording.open(tmp_path / "recording")
    rows = {row.name: recording.tensors(row)["output.0"] for row in recording.rows(0)}
    np.testing.assert_array_equal(rows["aten::_conj"], value.conj().resolve_conj().numpy())
    np.testing.assert_array_equal(rows["aten::clone"], value.conj().resolve_conj().numpy())


def test_memory_that_is_borrowed_begins_where_the_tensor_does_and_stays_lazily_copied() -> None:
    values = torch.randn(5, 7)
    part = values[2:]
    assert borrowed(part).tolist() == part.reshape(-1).tolist()
    lazy = torch._lazy_clone(values)
    assert borrowed(lazy[1:]).tolist() == values[1:].reshape(-1).tolist()
    assert torch._C._is_cow_tensor(lazy)


def test_a_part_of_memory_that_is_small_has_its_own_statistics(tmp_path: Path) -> None:
    values = torch.arange(40.0).reshape(4, 10)
    with jumar.record(tmp_path / "recording", values="sketch"):
        values[1:3].add(0.0)
    (row,) = [row for row in Recording.open(tmp_path / "recording").rows(0) if row.name == "aten::add.Tensor"]
    seen = row.inputs[0]
    assert (seen.minimum, seen.maximum, seen.mean) == (10.0, 29.0, 19.5)
    assert row.outputs[0].sketch == sketch.sketch_of(values[1:3].numpy())
