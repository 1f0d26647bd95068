"""The data file keeps values, strides and nothing else, and is there whole or not at all."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.tune.graph.capture.data import load, save
from jumar.tune.model.errors import TuneError

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool]


@settings(max_examples=30)
@given(
    shape=st.lists(st.integers(0, 4), max_size=4),
    order=st.randoms(use_true_random=False),
    dtype=st.sampled_from(DTYPES),
)
def test_tensors_come_back_with_their_strides(tmp_path_factory, shape, order, dtype):
    dimensions = list(range(len(shape)))
    order.shuffle(dimensions)
    tensor = torch.randn(shape).mul(10).to(dtype).permute(dimensions)
    path = tmp_path_factory.mktemp("data") / "data.pt"
    save(path, {3: tensor, 0: tensor[:1] if shape else tensor})
    found = load(path)
    assert sorted(found) == [0, 3]
    assert (found[3].stride(), found[3].dtype) == (tensor.stride(), tensor.dtype)
    assert torch.equal(found[3], tensor)


def test_a_view_takes_no_more_room_than_its_own(tmp_path):
    large = torch.zeros(1 << 20)
    save(tmp_path / "data.pt", {0: large[:4], 1: torch.ones(1, 3).expand(4, 3), 2: torch.nn.Parameter(large[4:8])})
    assert (tmp_path / "data.pt").stat().st_size < 10_000
    found = load(tmp_path / "data.pt")
    assert (found[1].stride(), found[1].shape) == ((0, 1), (4, 3))
    assert type(found[2]) is torch.Tensor
    assert not found[2].requires_grad


def test_weights_that_share_memory_share_it_in_the_file(tmp_path):
    weight = torch.randn(1 << 14)
    save(tmp_path / "one.pt", {0: weight})
    save(tmp_path / "two.pt", {0: weight, 1: weight})
    assert (tmp_path / "two.pt").stat().st_size - (tmp_path / "one.pt").stat().st_size < 4096


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04 cut short"])
def test_a_foreign_file_is_one_sentence(tmp_path, content):
    (tmp_path / "data.pt").write_bytes(content)
    with pytest.raises(TuneError, match="holds no weights of a graph"):
        load(tmp_path / "data.pt")


def test_a_file_of_something_else_and_an_absent_one_are_one_sentence(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "state.pt")
    for name in ("state.pt", "absent.pt"):
        with pytest.raises(TuneError, match="capture the model again"):
            load(tmp_path / name)


FULL = """
import resource, signal, sys
from pathlib import Path
import torch
from jumar.tune.model.errors import TuneError
from jumar.tune.graph.capture.data import save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(Path(sys.argv[1]), {0: torch.ones(1 << 20)})
except TuneError as error:
    sys.exit("Make room" not in str(error))
sys.exit(3)
"""


def test_a_full_disk_is_one_sentence_and_leaves_no_part(tmp_path):
    """A limit on the size of files does what a full disk does, at the same place."""
    save(tmp_path / "data.pt", {0: torch.zeros(3)})
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "data.pt")], check=False)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["data.pt"]
    assert torch.equal(load(tmp_path / "data.pt")[0], torch.zeros(3))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
