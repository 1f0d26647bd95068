"""Sketches and hashes of tensors as they are recorded, on the host and with the operators of a device."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.capture import record
from jumar.capture.notes.calls import Seen
from jumar.capture.probes import HashProbe, SketchProbe, hashes, sketches, stats
from jumar.recording import Recording, TensorRow, sketch

SIZES = [1, 7, 64, 65, 2039, 2048, 5000, sketch.TILE, sketch.TILE + 5, 2 * sketch.BLOCK + 999, 4 * sketch.BLOCK + 1]


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(found: bytes, expected: bytes, norm: float) -> bool:
    return sketch.l2_distance(found, expected) <= sketch.ROUNDING * norm


@pytest.mark.parametrize("size", SIZES)
def test_the_operators_of_a_device_give_the_sketch_of_the_host(size: int) -> None:
    values = draw(size)
    on_device = sketch.pack(sketches.device_sketch(values).numpy())
    assert close(on_device, sketches.host_sketch(values), float(values.norm()))


def test_many_blocks_of_signs_are_put_together_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    values = draw(5 * sketch.BLOCK + 77)
    monkeypatch.setattr(sketches, "_BLOCKS_AT_ONCE", 2)
    assert close(sketch.pack(sketches.device_sketch(values).numpy()), sketches.host_sketch(values), 1000)


@pytest.mark.parametrize(
    "values",
    [
        draw(30, 40).t(),
        draw(30, 40)[:, ::3],
        draw(30, 1).expand(30, 9),
        draw(30, 40).bfloat16(),
        draw(30, 40).half(),
        draw(30, 40).double(),
        draw(30, 40).to(torch.float8_e4m3fn),
        draw(30, 40) > 0,
        (draw(30, 40) * 10).long(),
        torch.complex(draw(30, 40), draw(30, 40) * 2),
        torch.complex(draw(30, 40), draw(30, 40) * 2).conj(),
        torch.complex(draw(30, 40), draw(30, 40) * 2).conj().imag,
        torch.where(draw(30, 40) > 1, torch.inf, draw(30, 40)),
        torch.full((30, 40), torch.nan),
        torch.tensor(3.0),
    ],
    ids=str,
)
def test_sketches_are_of_the_elements_in_logical_order_as_float32(values: torch.Tensor) -> None:
    plain = values.resolve_conj().resolve_neg()
    array = (plain if plain.is_complex() else plain.float()).contiguous().numpy()
    expected = sketch.sketch_of(array)
    assert sketches.host_sketch(values) == expected
    assert close(sketch.pack(sketches.device_sketch(values).numpy()), expected, 100.0)


def seen_by(probe: Any, *tensors: torch.Tensor) -> list[Seen]:
    from jumar.capture.notes.storages import StorageTable

    table, found = StorageTable(), []
    for tensor in tensors:
        seen, is_new = table.find(tensor)
        if is_new:
            probe.on_tensor(seen, tensor)
        found.append(seen)
    probe.on_step_end([])
    table.clear()
    return found


def test_contiguous_views_share_a_sketch_and_views_in_another_order_have_none() -> None:
    values = draw(24, 8)
    whole, flat, turned, part, repeated = seen_by(
        SketchProbe(), values, values.view(-1), values.t(), values[:, :4], values[:1].expand(99, 8)
    )
    assert whole.sketch == flat.sketch == sketches.host_sketch(values)
    assert (turned.sketch, part.sketch, repeated.sketch) == (None, None, None)


def test_a_tensor_that_was_written_has_a_new_sketch() -> None:
    values = draw(24, 8)
    probe = SketchProbe()
    before = sketches.host_sketch(values)
    (first,) = seen_by(probe, values)
    values.mul_(2)
    turned, whole = seen_by(probe, values.t(), values)
    assert first.sketch == before
    assert turned.sketch == sketches.host_sketch(values.t())
    assert whole.sketch == sketches.host_sketch(values) != before


def test_a_weight_that_is_read_transposed_has_one_sketch(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(draw(8, 8))
    updates = torch.optim.SGD([weight], lr=0.1)
    with record(tmp_path / "r", values="sketch"):
        for _ in range(2):
            (draw(4, 8) @ weight.t()).sum().backward()
            updates.step()
    rows = [row for row in Recording.open(tmp_path / "r").rows(1) if row.name == "aten::t"]
    assert [(r.inputs[0].sketch is None, r.outputs[0].sketch is None) for r in rows[:1]] == [(False, True)]


def test_a_new_tensor_in_another_memory_order_has_a_sketch_in_logical_order() -> None:
    values = draw(2, 3, 8, 8).to(memory_format=torch.channels_last)
    (seen,) = seen_by(SketchProbe(), values)
    assert seen.sketch == sketches.host_sketch(values.contiguous())


def test_tensors_without_strided_values_are_left_alone() -> None:
    tensors = draw(5, 5).to_sparse(), torch.empty(5, device="meta")
    assert [seen.sketch for seen in seen_by(SketchProbe(), *tensors)] == [None, None]
    assert [seen.hash for seen in seen_by(HashProbe(), *tensors)] == ["", ""]


def test_an_empty_tensor_has_a_sketch_of_zeros() -> None:
    assert seen_by(SketchProbe(), torch.empty(0, 3))[0].sketch == bytes(256)


def test_inference_tensors_have_sketches_and_hashes() -> None:
    with torch.inference_mode():
        values = torch.ones(100)
    assert seen_by(SketchProbe(), values)[0].sketch == sketches.host_sketch(values)
    assert len(seen_by(HashProbe(), values)[0].hash) == 16


# -- hashes -------------------------------------------------------------------------------------


def hash_of(tensor: torch.Tensor) -> str:
    return seen_by(HashProbe(), tensor)[0].hash


@settings(derandomize=True, deadline=None, max_examples=80)
@given(num=st.integers(0, 300), skip=st.integers(0, 9), big=st.sampled_from([0, hashes.WORDS * 8, hashes.WORDS * 24]))
def test_the_operators_of_a_device_give_the_hash_of_the_host(num: int, skip: int, big: int) -> None:
    octets = (torch.arange(big + num + skip) * 2654435761 % 251).to(torch.uint8)[skip:]
    assert int(hashes.device_sum(octets)) % (1 << 64) == hashes.host_sum(octets)


def test_the_hash_is_the_one_of_the_format() -> None:
    assert hash_of(torch.arange(10, dtype=torch.float32)) == "af431b76956de278"


def test_any_changed_bit_changes_the_hash() -> None:
    values = draw(50, 33)
    expected = hash_of(values)
    assert hash_of(values.clone()) == expected
    for change in (1, 31, 63):
        for at in (0, 1, 1648, 1649):
            words = values.clone().view(torch.int32).view(-1)
            words[at] ^= 1 << min(change, 30) if change < 32 else -(1 << 31)
            assert hash_of(words.view(torch.float32).view(50, 33)) != expected
    assert hash_of(-values) != expected


def test_order_dtype_and_shape_change_the_hash() -> None:
    values = draw(32, 32)
    others = [
        values.t(),
        values.flip(0),
        values.roll(1),
        values.view(-1),
        values.view(torch.int32),
        values.view(64, 16),
    ]
    assert len({hash_of(values), *map(hash_of, others)}) == 1 + len(others)
    assert hash_of(values.t()) == hash_of(values.t().contiguous())


def test_keys_and_factors_have_no_visible_pattern() -> None:
    keys = hashes.keys()
    assert len(set(keys.tolist())) == keys.size
    bits = np.unpackbits(keys.view(np.uint8)).reshape(keys.size, 64).mean(0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / np.sqrt(keys.size)
    assert len({hashes.factor(number) for number in range(1000)}) == 1000


# -- recordings ---------------------------------------------------------------------------------


def rows_with(tmp_path: Path, values: Any) -> list[TensorRow]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    with record(tmp_path / str(values), values=values):
        model(draw(4, 8)).sum().backward()
    return [
        tensor
        for row in Recording.open(tmp_path / str(values)).rows(0)
        if row.kind == "op"
        for tensor in (*row.inputs, *row.outputs)
    ]


def test_values_sketch_records_statistics_and_sketches(tmp_path: Path) -> None:
    rows = rows_with(tmp_path, "sketch")
    assert all(tensor.l2 is not None and not tensor.hash for tensor in rows)
    with_sketch = [tensor for tensor in rows if tensor.sketch is not None]
    assert {len(tensor.sketch or b"") for tensor in with_sketch} == {256}
    assert all(tensor.sketch is not None for tensor in rows if tensor.contiguous)
    small = [tensor for tensor in with_sketch if np.prod(tensor.shape) <= 64 and tensor.l2]
    assert small
    assert all(sketch.l2_norm(t.sketch or b"") == pytest.approx(t.l2, rel=1e-5) for t in small)


def test_values_hash_records_hashes_alone(tmp_path: Path) -> None:
    rows = rows_with(tmp_path, "hash")
    assert {len(tensor.hash) for tensor in rows} == {16}
    assert {(tensor.l2, tensor.sketch) for tensor in rows if tensor.shape} == {(None, None)}


@pytest.mark.parametrize("extra", [1, 63, 2 * sketch.BLOCK, 3 * sketch.BLOCK + 5])
def test_big_tensors_have_their_statistics_taken_in_passing(extra: int) -> None:
    values = draw(sketch.BLOCK + extra)
    probe = SketchProbe()
    (seen,) = seen_by(probe, values)
    assert struct.unpack("6d", seen.statistics) == pytest.approx(stats.host_statistics(values), rel=1e-5)
    assert seen.sketch == sketches.host_sketch(values)


@pytest.mark.parametrize("odd", [torch.inf, torch.nan, 1e38])
def test_a_big_tensor_with_odd_values_is_left_to_the_careful_way(odd: float) -> None:
    values = draw(3 * sketch.BLOCK)
    values[2 * sketch.BLOCK + 7] = odd
    (seen,) = seen_by(SketchProbe(), values)
    assert seen.statistics is None
    assert seen.sketch == sketches.host_sketch(values)
