"""Dumps of other tools read as recordings: names, places, values, and what compare and overflow make of them."""

from __future__ import annotations

import json
from pathlib import Path

import foreign_samples as samples
import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.comparison import compare
from jumar.comparison.overflow import find_overflow
from jumar.recording.foreign import Dump, contents_of, open_foreign
from jumar.recording.foreign.formats.npy_names import NpyName, file_name, is_raw_dump, parse


def opened(path: Path) -> Dump:
    found = open_foreign(path)
    assert found is not None
    return found


# -- HDF5 ---------------------------------------------------------------------------------------


def test_hdf5_is_read_in_the_order_of_the_calls(tmp_path: Path) -> None:
    dump = opened(samples.hdf5(tmp_path / "npu.h5"))
    rows = dump.rows(0)
    assert [f"{row.name}/{row.occurrence + 1}" for row in rows] == list(samples.ARRAYS)
    assert [tensor.name for tensor in rows[0].inputs] == ["input.0", "input.other"]
    assert (rows[0].outputs[0].num_inf, rows[0].outputs[0].maximum) == (1, 2.0)
    for row, arrays in zip(rows, samples.ARRAYS.values(), strict=True):
        found = dump.tensors(row)
        assert list(found) == list(arrays)
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_a_part_copied_as_h5copy_does_keeps_its_number(tmp_path: Path) -> None:
    samples.hdf5(tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as source, h5py.File(tmp_path / "part.h5", "w") as target:
        source.copy("/aten::mul.Tensor/2", target.require_group("/aten::mul.Tensor"), name="2")
    row = opened(tmp_path / "part.h5").rows(0)[0]
    assert (row.name, row.occurrence, row.outputs[0].maximum) == ("aten::mul.Tensor", 1, 9.0)


def test_numbers_that_count_all_operators_are_the_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "seed.h5", "w") as file:
        for place in ("relu/3/output/0", "conv/1/output/0", "add/2/output/0"):
            file[place] = np.ones(2, np.float32)
    assert [row.name for row in opened(tmp_path / "seed.h5").rows(0)] == ["conv", "add", "relu"]


def test_bfloat16_comes_back_as_float32(tmp_path: Path) -> None:
    raw = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.uint16).numpy()
    samples.write_tensors(tmp_path / "x.h5", {"op/1": {"output.0": raw}}, {"op/1": {"output.0": "bfloat16"}})
    row = opened(tmp_path / "x.h5").rows(0)[0]
    assert (row.outputs[0].dtype, row.outputs[0].minimum, row.outputs[0].maximum) == ("bfloat16", -2.0, 1.5)


# -- msprobe ------------------------------------------------------------------------------------


def test_msprobe_leads_from_functions_to_modules_and_lines(tmp_path: Path) -> None:
    rows = opened(samples.msprobe(tmp_path)).rows(0)
    assert [(row.kind, row.phase, row.name, row.module_path) for row in rows] == [
        ("op", "forward", "torch::exp", "blocks.0.act"),
        ("module", "forward", "Exp", "blocks.0.act"),
        ("parameter", "optimizer", "weight", "blocks.0.act"),
        ("module", "backward", "Exp", "blocks.0.act"),
    ]
    assert rows[0].source == "net.py:21"
    assert [tensor.name for tensor in rows[1].inputs] == ["input.0", "input.weight"]
    assert [tensor.name for tensor in rows[3].outputs] == ["grad_input.0"]
    infinite = rows[0].outputs[0]
    assert (infinite.num_inf, infinite.maximum, infinite.minimum) == (1, None, np.float32(np.e))


def test_msprobe_at_l1_knows_no_module(tmp_path: Path) -> None:
    assert [row.module_path for row in opened(samples.msprobe(tmp_path, level="L1")).rows(0)] == [""]


def test_steps_and_ranks_of_msprobe_are_those_of_the_folders_and_processes_are_counted(tmp_path: Path) -> None:
    for step in (0, 3):
        for place in ("rank0", "rank2"):
            samples.msprobe(tmp_path / "ranks", step=step, place=place)
        for place in ("proc11", "proc12"):
            samples.msprobe(tmp_path / "processes", step=step, place=place)
    for folder, ranks in (("ranks", [0, 2]), ("processes", [0, 1])):
        dump = opened(tmp_path / folder)
        assert (dump.ranks, dump.steps(ranks[1])) == (ranks, [0, 3])
    one = opened(tmp_path / "ranks" / "step3" / "rank2" / "dump.json")
    assert (one.steps(2), len(one.rows(3, 2))) == ([3], 4)


def test_tensors_of_msprobe_are_loaded_and_names_that_lead_elsewhere_are_not(tmp_path: Path) -> None:
    dump = opened(samples.msprobe(tmp_path / "dump", files=True))
    assert dump.info.values == "tensors"
    assert list(dump.tensors(dump.rows(0)[0])["output.0"]) == [np.float32(np.e), np.inf]
    torch.save(torch.ones(1), tmp_path / "secret.pt")
    file = tmp_path / "dump" / "step0" / "rank0" / "dump.json"
    file.write_text(file.read_text().replace("Torch.exp.0.forward.output.0.pt", "../../../secret.pt"))
    again = opened(tmp_path / "dump")
    assert "output.0" not in again.tensors(again.rows(0)[0])


def test_an_overflow_in_a_dump_of_msprobe_is_named(tmp_path: Path) -> None:
    origin = find_overflow(samples.msprobe(tmp_path, level="L1")).origins[0]
    assert (origin.operator, origin.source, origin.reaches) == (
        "torch::exp",
        "net.py:21",
        "the last results of the recording",
    )
    assert "exp of 100 leaves float32" in origin.cause


# -- TroubleShooter, .npy -----------------------------------------------------------------------


@pytest.mark.parametrize("files", [True, False])
def test_troubleshooters_layers_are_where_its_functions_belong(tmp_path: Path, files: bool) -> None:
    dump = opened(samples.troubleshooter(tmp_path, files=files))
    rows = dump.rows(0)
    assert [(row.name, row.phase, row.module_path, row.source) for row in rows] == [
        ("nn::linear", "forward", "body.0", "net.py:9"),
        ("torch::exp", "forward", "", ""),
        ("nn::linear_backward", "backward", "body.0", ""),
    ]
    assert (rows[0].outputs[0].maximum, rows[0].outputs[0].l2, dump.has_tensors()) == (3.0, 3.0, files)


def test_converted_dumps_are_read_in_their_old_and_new_names(tmp_path: Path) -> None:
    rows = opened(samples.npy(tmp_path)).rows(0)
    assert [(row.name, row.module_path, len(row.inputs)) for row in rows] == [
        ("Conv2D", "conv1", 1),
        ("Pooling", "pool1", 0),
    ]


def test_plain_folders_pair_by_name(tmp_path: Path) -> None:
    for side, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / side / "sub").mkdir(parents=True)
        np.save(tmp_path / side / "first.npy", np.ones(3, np.float32))
        np.save(tmp_path / side / "sub" / "second.npy", np.full(3, value, np.float32))
    comparison = compare(tmp_path / "a", tmp_path / "b")
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.name == "sub/second"
    assert compare(tmp_path / "a", tmp_path / "a").first_divergence is None
    one = compare(tmp_path / "a" / "first.npy", tmp_path / "b" / "sub" / "second.npy")
    assert one.first_divergence is not None


PARTS = st.text("abcXYZ019_-", min_size=1, max_size=12)
NUMBERS = st.integers(0, 10**9)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(PARTS, PARTS, NUMBERS, NUMBERS, st.integers(0, 10**16), st.sampled_from(["input", "output"]), NUMBERS)
def test_names_of_converted_dumps_round_trip(
    operator: str, name: str, task: int, stream: int, time: int, side: str, index: int
) -> None:
    given_name = NpyName(operator, name, task, stream, time, side, index)
    assert parse(file_name(given_name).removesuffix(".npy")) == given_name


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("Pooling.pool1.1147.1589195081588018.output.0", ("Pooling", "pool1", 1147, 0, "output", 0)),
        ("Add.a_b.3.7.1589195081588018.input.12", ("Add", "a_b", 3, 7, "input", 12)),
        ("Add.a_b.3.7.1589195081588018.output.0.NCHW", ("Add", "a_b", 3, 7, "output", 0)),
        ("conv1.0.1589195081588018", ("", "conv1", 0, 0, "output", 0)),
    ],
)
def test_the_documented_names_are_known(stem: str, expected: tuple[object, ...]) -> None:
    found = parse(stem)
    assert found is not None
    assert (found.operator, found.name, found.task, found.stream, found.side, found.index) == expected


@pytest.mark.parametrize("stem", ["loss", "a.b", "Add.x.1.2.output", "Add.x.one.2.3.output.0", ""])
def test_other_names_are_plain(stem: str) -> None:
    assert parse(stem) is None


def test_binary_dumps_of_the_vendor_are_told_by_their_names() -> None:
    assert is_raw_dump("Add.add_1.3.7.1589195081588018")
    assert not is_raw_dump("Add.add_1.3.7.1589195081588018.output.0.npy")


# -- checkpoints --------------------------------------------------------------------------------


def test_checkpoints_are_compared_parameter_by_parameter(tmp_path: Path) -> None:
    a, b = samples.checkpoint(tmp_path / "a.pth"), samples.checkpoint(tmp_path / "b.pth", 1.01)
    comparison = compare(a, b)
    assert comparison.first_divergence is not None
    assert (comparison.first_divergence.name, comparison.first_divergence.module_path) == ("parameter::weight", "2")
    assert compare(a, samples.checkpoint(tmp_path / "c.pth")).first_divergence is None


def field(number: int, data: bytes) -> bytes:
    size, head = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + data


def mindspore(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    """Write a checkpoint as MindSpore's protobuf message has it."""
    text = b""
    for name, array in tensors.items():
        kind = {"float32": b"Float32", "float16": b"Float16", "int64": b"Int64"}[str(array.dtype)]
        dims = b"".join(bytes([1 << 3, size]) for size in array.shape)
        tensor = dims + field(2, kind) + field(3, array.tobytes())
        text += field(1, field(1, name.encode()) + field(2, tensor))
    path.write_bytes(text)
    return path


def test_mindspores_names_are_pytorchs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731 - five draws
    arrays = {"conv.weight": draw(4, 3), "bn.weight": draw(4), "bn.bias": draw(4), "bn.running_mean": draw(4)}
    words = {"bn.weight": "bn.gamma", "bn.bias": "bn.beta", "bn.running_mean": "bn.moving_mean"}
    mine = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save({**mine, "bn.num_batches_tracked": torch.tensor(3)}, tmp_path / "a.pth")
    mindspore(tmp_path / "b.ckpt", {words.get(name, name): array for name, array in arrays.items()})
    comparison = compare(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert comparison.headline.startswith("The checkpoints agree: 4 parameters")
    arrays["bn.bias"] = arrays["bn.bias"] * 2
    mindspore(tmp_path / "c.ckpt", {words.get(name, name): array for name, array in arrays.items()})
    different = compare(tmp_path / "a.pth", tmp_path / "c.ckpt").first_divergence
    assert different is not None
    assert (different.module_path, different.name) == ("bn", "parameter::bias")


# -- contents -----------------------------------------------------------------------------------


def test_contents_can_be_narrowed(tmp_path: Path) -> None:
    path = samples.hdf5(tmp_path / "npu.h5")
    assert len(contents_of(path).calls) == 3
    assert [row.occurrence for row in contents_of(path, "aten::mul.Tensor/2").calls] == [1]
    assert len(contents_of(path, "aten::mul*").calls) == 2
    assert contents_of(path, "nothing").calls == ()


def test_msprobes_dump_of_mindspore_has_its_names(tmp_path: Path) -> None:
    tensor = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": 2.0, "Min": 1.0, "Norm": 2.2}
    call = {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}
    data = {"Primitive.conv2d.Conv2D.0.forward": call, "Cell.net.fc.Dense.forward.0": call}
    (tmp_path / "step0" / "rank0").mkdir(parents=True)
    document = {"task": "statistics", "level": "mix", "framework": "mindspore", "dump_data_dir": None, "data": data}
    (tmp_path / "step0" / "rank0" / "dump.json").write_text(json.dumps(document))
    dump = open_foreign(tmp_path)
    assert dump is not None
    assert dump.info.framework == "mindspore"
    found = [(row.kind, row.module_path, row.name, row.outputs[0].dtype) for row in dump.rows(0)]
    assert found == [("op", "", "ms::Conv2D", "float32"), ("module", "net.fc", "Dense", "float32")]
