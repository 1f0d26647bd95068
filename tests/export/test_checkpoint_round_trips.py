"""Any state dict comes back bit by bit through every format, through chains of them, and by PyTorch's own readers."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from checkpoint_states import COMMON, DTYPES, states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError, OutputError
from jumar.export import CheckpointOptions, export_checkpoint
from jumar.export.formats.weights import TensorInfo, open_weights, write_weights
from jumar.export.tensors import same_bits

KEEP = CheckpointOptions(prefixes=(), force=True)
FULL = st.lists(st.integers(1, 4), max_size=3).map(tuple)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def loaded(path: Path) -> dict[str, torch.Tensor]:
    with open_weights(path) as weights:
        return {name: weights.read(name) for name in weights.names()}


def assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert set(actual) == set(expected)
    for name, tensor in expected.items():
        assert same_bits(actual[name], tensor), name


@given(states(), st.booleans())
@QUICK
def test_pytorchs_files_of_both_forms_are_read_and_what_is_written_torch_load_takes(tmp_path, state, legacy) -> None:
    torch.save(state, tmp_path / "in.pth", _use_new_zipfile_serialization=not legacy)
    assert_same(loaded(tmp_path / "in.pth"), state)
    export_checkpoint(tmp_path / "in.pth", tmp_path / "out.pt", KEEP)
    for mmap in (False, True):
        assert_same(torch.load(tmp_path / "out.pt", weights_only=True, mmap=mmap), state)
    back = torch.load(tmp_path / "out.pt", weights_only=True)
    assert list(back) == list(state)
    first = next(iter(state))
    if "tied.weight" in state and state[first].numel():
        assert back["tied.weight"].data_ptr() == back[first].data_ptr()


@given(states([dtype for dtype in DTYPES if dtype is not torch.complex128]))
@QUICK
def test_safetensors_own_package_reads_what_is_written_and_writes_what_is_read(tmp_path, state) -> None:
    package = pytest.importorskip("safetensors.torch")
    torch.save(state, tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / "out.safetensors", KEEP)
    assert list(loaded(tmp_path / "out.safetensors")) == list(state)
    # The package has no name in PyTorch for these two.
    newer = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
    if not newer & {tensor.dtype for tensor in state.values()}:
        assert_same(package.load_file(tmp_path / "out.safetensors"), state)
        own = {name: tensor.contiguous().clone() for name, tensor in state.items()}
        package.save_file(own, tmp_path / "theirs.safetensors")
        assert_same(loaded(tmp_path / "theirs.safetensors"), state)


@given(states(separators=(".", "/")))
@QUICK
def test_h5_gives_every_name_and_bit_back(tmp_path, state) -> None:
    torch.save(state, tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / "out.h5", KEEP)
    assert_same(loaded(tmp_path / "out.h5"), state)


@given(states(COMMON, FULL), st.lists(st.sampled_from(["pth", "safetensors", "ckpt", "h5", "pt"]), max_size=5))
@QUICK
def test_a_chain_of_formats_changes_no_bit(tmp_path, state, chain) -> None:
    path = tmp_path / "in.pth"
    # Names that MindSpore has others for would be renamed.
    state = {f"{name.replace('weight', 'w').replace('.bn', '.b')}.w": tensor for name, tensor in state.items()}
    torch.save(state, path)
    for number, suffix in enumerate(chain):
        following = tmp_path / f"{number}.{suffix}"
        export_checkpoint(path, following, KEEP)
        path = following
    assert_same(loaded(path), state)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".ckpt", ".h5"])
def test_write_weights_asks_for_each_tensor_when_its_turn_comes_and_once(tmp_path, suffix) -> None:
    asked: list[str] = []

    def maker(name: str):
        def make() -> torch.Tensor:
            asked.append(name)
            return torch.full((3, 2), float(len(name)))

        return make

    names = ["a/kernel", "bb/kernel"]
    info = TensorInfo((3, 2), torch.float32)
    write_weights(tmp_path / f"x{suffix}", [(name, info, maker(name)) for name in names], force=False)
    assert sorted(asked) == names
    assert_same(loaded(tmp_path / f"x{suffix}"), {name: torch.full((3, 2), float(len(name))) for name in names})
    with pytest.raises(OutputError, match="--force"):
        write_weights(tmp_path / f"x{suffix}", [], force=False)


def test_write_weights_ties_names_of_one_callable_and_refuses_another_shape(tmp_path) -> None:
    make = lambda: torch.ones(4)  # noqa: E731
    info = TensorInfo((4,), torch.float32)
    write_weights(tmp_path / "x.pt", [("a", info, make), ("b", info, make)], force=False)
    back = torch.load(tmp_path / "x.pt", weights_only=True)
    assert back["a"].data_ptr() == back["b"].data_ptr()
    with pytest.raises(OutputError, match=r"'a' was to be \(5,\)"):
        write_weights(tmp_path / "y.pt", [("a", TensorInfo((5,), torch.float32), make)], force=False)
    with pytest.raises(InputError, match="written twice"):
        write_weights(tmp_path / "y.pt", [("a", info, make), ("a", info, make)], force=False)
    assert not (tmp_path / "y.pt").exists()


@pytest.mark.parametrize(
    ("name", "advice"), [("x.keras", "write a .h5"), ("x.onnx", "jumar export onnx"), ("x.npz", "write a .safetensors")]
)
def test_a_suffix_that_would_lie_is_refused(tmp_path, name, advice) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "in.pth")
    with pytest.raises(OutputError, match=advice):
        export_checkpoint(tmp_path / "in.pth", tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".ckpt", ".h5"])
@pytest.mark.parametrize("called", ["x.pth", "x.safetensors", "x.ckpt", "x.h5", "x.bin", "x"])
def test_the_content_says_the_format_and_not_the_name(tmp_path, suffix, called) -> None:
    state = {"fc.w": torch.arange(6.0).reshape(2, 3)}
    torch.save(state, tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / f"out{suffix}")
    (tmp_path / "of").mkdir()
    (tmp_path / f"out{suffix}").rename(tmp_path / "of" / called)
    assert_same(loaded(tmp_path / "of" / called), state)


def test_a_file_saved_without_checksums_is_read(tmp_path) -> None:
    state = {"w": torch.arange(5.0)}
    torch.serialization.set_crc32_options(False)
    with contextlib.ExitStack() as stack:
        stack.callback(torch.serialization.set_crc32_options, True)
        torch.save(state, tmp_path / "in.pth")
    assert_same(loaded(tmp_path / "in.pth"), state)


def test_shards_beside_an_index_are_one_model(tmp_path) -> None:
    package = pytest.importorskip("safetensors.torch")
    import json

    package.save_file({"a": torch.ones(2)}, tmp_path / "model-1.safetensors")
    package.save_file({"b": torch.zeros(3)}, tmp_path / "model-2.safetensors")
    torch.save({"c": torch.ones(1)}, tmp_path / "model-3.bin")
    table = {"b": "model-2.safetensors", "a": "model-1.safetensors", "c": "model-3.bin"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    expected = {"b": torch.zeros(3), "a": torch.ones(2), "c": torch.ones(1)}
    assert_same(loaded(tmp_path / "model.safetensors.index.json"), expected)
    assert_same(loaded(tmp_path), expected)
