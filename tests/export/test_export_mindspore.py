"""MindSpore's `.ckpt` from PyTorch's checkpoints and back: names, every bit, and what has no place there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from jumar.base.errors import InputError, OutputError, RecordingError, UsageError
from jumar.export.checkpoint import export_checkpoint
from jumar.export.formats.mindspore import DTYPES, read_mindspore, write_mindspore
from jumar.export.options import CheckpointOptions

READS = """
import sys, mindspore, numpy
for name, value in sorted(mindspore.load_checkpoint(sys.argv[1]).items()):
    print(name, tuple(value.shape), value.asnumpy().astype(numpy.float64).sum())
"""


class Net(nn.Module):
    """One of each kind of module that has other names in MindSpore."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv, self.bn = nn.Embedding(7, 4), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.norm, self.fc, self.free = nn.LayerNorm(4), nn.Linear(4, 5), nn.Linear(4, 5, bias=False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "in.pth"
    torch.save({"model": Net().state_dict(), "epoch": 3}, path)
    return path


def test_names_become_mindspores_and_the_values_stay(checkpoint: Path, tmp_path: Path) -> None:
    options = CheckpointOptions(embeddings=("table",))
    report = export_checkpoint(checkpoint, tmp_path / "out.ckpt", options)
    state, found = torch.load(checkpoint)["model"], read_mindspore(tmp_path / "out.ckpt")
    renamed = {
        "table.embedding_table": "table.weight", "bn.gamma": "bn.weight", "bn.beta": "bn.bias",
        "bn.moving_mean": "bn.running_mean", "bn.moving_variance": "bn.running_var",
        "norm.gamma": "norm.weight", "norm.beta": "norm.bias",
    }  # fmt: skip
    same = ("conv.weight", "conv.bias", "fc.weight", "fc.bias", "free.weight")
    assert set(found) == {*renamed, *same}
    assert all(torch.equal(found[name], state[renamed.get(name, name)]) for name in found)
    assert (report.num_renamed, report.left_out, report.undecided) == (7, ("bn.num_batches_tracked",), ("free.weight",))


def test_the_way_back_gives_pytorchs_names_and_every_bit(checkpoint: Path, tmp_path: Path) -> None:
    export_checkpoint(checkpoint, tmp_path / "out.ckpt", CheckpointOptions(embeddings=("table",)))
    export_checkpoint(tmp_path / "out.ckpt", tmp_path / "back.pth")
    state, back = torch.load(checkpoint)["model"], torch.load(tmp_path / "back.pth")
    assert set(state) - set(back) == {"bn.num_batches_tracked"}
    assert all(torch.equal(back[name], state[name]) for name in back)


SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@given(
    st.dictionaries(st.text("abc.", min_size=1, max_size=6), st.tuples(SHAPES, st.sampled_from(sorted(DTYPES)))),
    st.sampled_from([1, 7, 64, 1 << 20]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_tensors_come_back_as_they_were(
    tmp_path: Path, wanted: dict[str, tuple[tuple[int, ...], str]], slice_bytes: int
) -> None:
    state = {}
    for name, (shape, kind) in wanted.items():
        size = torch.empty(shape, dtype=DTYPES[kind]).numel() * DTYPES[kind].itemsize
        content = torch.randint(0, 2 if kind == "Bool" else 256, (size,), dtype=torch.uint8)
        state[name] = content.view(DTYPES[kind]).reshape(shape)
    write_mindspore(tmp_path / "x.ckpt", state, slice_bytes)
    found = read_mindspore(tmp_path / "x.ckpt") if state else {}
    assert {name: (one.dtype, one.shape) for name, one in found.items()} == {
        name: (one.dtype, one.shape) for name, one in state.items()
    }
    bits = lambda tensor: tensor.reshape(-1).view(torch.uint8).tolist()  # noqa: E731
    assert {name: bits(one) for name, one in found.items()} == {name: bits(one) for name, one in state.items()}


def test_what_mindspore_cannot_hold_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"'a' is torch.complex64, which MindSpore has not"):
        write_mindspore(tmp_path / "x.ckpt", {"a": torch.ones(2, dtype=torch.complex64)})
    with pytest.raises(OutputError, match="is empty, which MindSpore reads as a single number"):
        write_mindspore(tmp_path / "x.ckpt", {"a": torch.ones(0)})


def test_wrong_use_of_embedding_is_a_sentence(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names tables for MindSpore"):
        export_checkpoint(checkpoint, tmp_path / "out.pt", CheckpointOptions(embeddings=("table",)))
    with pytest.raises(InputError, match="no module with a weight is named 'tables'"):
        export_checkpoint(checkpoint, tmp_path / "out.ckpt", CheckpointOptions(embeddings=("tables",)))


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_file_that_is_cut_short_is_refused(checkpoint: Path, tmp_path: Path, cut: int) -> None:
    export_checkpoint(checkpoint, tmp_path / "out.ckpt")
    whole = (tmp_path / "out.ckpt").read_bytes()
    (tmp_path / "short.ckpt").write_bytes(whole[:-cut])
    with pytest.raises((InputError, RecordingError), match=r"short\.ckpt"):
        export_checkpoint(tmp_path / "short.ckpt", tmp_path / "back.pth")


@pytest.mark.slow
def test_mindspore_itself_reads_the_file(checkpoint: Path, tmp_path: Path, mindspore: Path) -> None:
    export_checkpoint(checkpoint, tmp_path / "out.ckpt")
    done = subprocess.run(
        [str(mindspore), "-c", READS, str(tmp_path / "out.ckpt")], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if " (" in line]
    expected = read_mindspore(tmp_path / "out.ckpt")
    assert {line.split()[0] for line in lines} == set(expected)
    sums = {line.split()[0]: float(line.split()[-1]) for line in lines}
    assert all(sums[name] == pytest.approx(float(value.double().sum()), abs=1e-4) for name, value in expected.items())
