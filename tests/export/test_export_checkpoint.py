"""Checkpoints: the weights are found, renamed only where needed, written whole, and nothing in the file is run."""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.export import CheckpointOptions, export_checkpoint
from jumar.export.checkpoint import same_bits
from jumar.export.find import strip_prefixes

WEIGHTS = {"fc.weight": torch.arange(6.0).reshape(2, 3), "fc.steps": torch.tensor(3)}


def save(tmp_path: Path, value: object, name: str = "in.pth") -> Path:
    path = tmp_path / name
    torch.save(value, path)
    return path


def exported(source: Path, **options) -> dict[str, torch.Tensor]:
    output = source.with_name("out.pt")
    export_checkpoint(source, output, CheckpointOptions(**options))
    return torch.load(output, weights_only=True)


def assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert list(actual) == list(expected)
    for key, value in expected.items():
        assert same_bits(actual[key], value), key


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "net", "anything"])
def test_the_weights_are_found_under_the_key_they_are_kept_under(tmp_path, key):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9)
    source = save(tmp_path, {"epoch": 3, key: WEIGHTS, "optimizer": optimizer.state_dict()})
    report = export_checkpoint(source, tmp_path / "out.pt")
    assert (report.found_under, report.left_behind) == (key, ("epoch", "optimizer"))
    assert_same(torch.load(tmp_path / "out.pt", weights_only=True), WEIGHTS)


def test_a_bare_state_dict_is_taken_as_it_is(tmp_path):
    assert_same(exported(save(tmp_path, WEIGHTS)), WEIGHTS)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_the_prefixes_of_wrappers_are_taken_off(tmp_path, prefix):
    source = save(tmp_path, {"state_dict": {prefix + key: value for key, value in WEIGHTS.items()}})
    assert_same(exported(source), WEIGHTS)


def test_keys_without_the_prefix_are_not_damaged(tmp_path):
    mixed = {"module.fc.weight": torch.ones(1), "encoder.weight": torch.zeros(1)}
    assert list(exported(save(tmp_path, mixed))) == ["fc.weight", "encoder.weight"]


def test_a_prefix_within_a_key_stays(tmp_path):
    assert list(exported(save(tmp_path, {"layer.module.weight": torch.ones(1)}))) == ["layer.module.weight"]


def test_two_keys_never_become_one(tmp_path):
    source = save(tmp_path, {"module.a": torch.ones(1), "a": torch.zeros(1)})
    with pytest.raises(InputError, match="would both become 'a'"):
        export_checkpoint(source, tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


@given(st.dictionaries(st.text(st.sampled_from("ab.m"), min_size=1, max_size=6), st.integers(), max_size=6))
def test_stripping_a_prefix_that_all_keys_carry_is_the_inverse_of_adding_it(state):
    wrapped = {f"module.{key}": value for key, value in state.items()}
    if any(key.startswith("module.") for key in state):
        return
    assert strip_prefixes(wrapped, ("module.",), Path("x"))[0] == state


def test_of_several_the_usual_name_is_taken_and_the_others_are_named(tmp_path):
    source = save(tmp_path, {"ema": {"w": torch.ones(1)}, "model": {"w": torch.zeros(1)}})
    report = export_checkpoint(source, tmp_path / "out.pt")
    assert (report.found_under, report.others) == ("model", ("ema",))


def test_of_several_without_a_usual_name_one_must_be_chosen(tmp_path):
    source = save(tmp_path, {"nets": {"g": {"w": torch.ones(1)}, "d": {"w": torch.zeros(1)}}})
    with pytest.raises(InputError, match=r"--only: nets\.g, nets\.d"):
        export_checkpoint(source, tmp_path / "out.pt")
    assert_same(exported(source, only="nets.d"), {"w": torch.zeros(1)})


def test_a_wrong_choice_is_answered_with_the_right_ones(tmp_path):
    with pytest.raises(InputError, match=r"no weights under 'mdoel'; it has them under model"):
        export_checkpoint(
            save(tmp_path, {"model": WEIGHTS, "epoch": 1}), tmp_path / "out.pt", CheckpointOptions(only="mdoel")
        )


def test_half_precision_touches_floating_tensors_only(tmp_path):
    result = exported(save(tmp_path, WEIGHTS), dtype="bf16")
    assert [value.dtype for value in result.values()] == [torch.bfloat16, torch.int64]
    assert torch.equal(result["fc.weight"].float(), WEIGHTS["fc.weight"])


def test_values_that_do_not_fit_are_counted(tmp_path):
    source = save(tmp_path, {"var": torch.tensor([1.0, 7e4, float("inf"), float("nan"), -1e9])})
    report = export_checkpoint(source, tmp_path / "out.pt", CheckpointOptions(dtype="fp16"))
    (finding,) = report.findings
    assert (finding.code, finding.evidence["num_values"], finding.evidence["greatest"]) == ("JM701", 2, 1e9)


def test_tied_weights_stay_tied_and_views_do_not_drag_their_storage_along(tmp_path):
    big = torch.zeros(1_000_000)
    weight = torch.randn(4, 4)
    result = exported(save(tmp_path, {"a": weight, "b": weight, "view": big[:3]}))
    assert result["a"].data_ptr() == result["b"].data_ptr()
    assert (tmp_path / "out.pt").stat().st_size < 100_000


@pytest.mark.parametrize("device", ["npu:3", "cuda:1"])
def test_tensors_of_a_device_that_is_not_here_come_to_the_cpu(tmp_path, device, monkeypatch):
    from torch import serialization

    monkeypatch.setattr(serialization, "location_tag", lambda storage: device)
    source = save(tmp_path, {"model": WEIGHTS})
    monkeypatch.undo()
    assert device.encode() in source.read_bytes()
    assert_same(exported(source), WEIGHTS)


def rebuild(storage, offset, size, stride, requires_grad, hooks, info):
    raise AssertionError("torch_npu's own function must not be needed")


class AsTorchNpuSaves:
    """Pickles as torch_npu pickles a tensor of a device format."""

    def __init__(self, tensor: torch.Tensor, function) -> None:
        self.tensor, self.function = tensor, function

    def __reduce__(self):
        storage = self.tensor._typed_storage()
        arguments = (storage, 0, tuple(self.tensor.shape), self.tensor.stride(), False, {}, 29)
        return self.function, arguments


def test_a_file_of_torch_npu_needs_no_torch_npu(tmp_path, monkeypatch):
    storage_module = types.ModuleType("torch_npu.utils.storage")
    function = types.FunctionType(rebuild.__code__, globals(), "_rebuild_npu_tensor")
    function.__qualname__ = "_rebuild_npu_tensor"
    function.__module__ = "torch_npu.utils.storage"
    storage_module._rebuild_npu_tensor = function
    for name in ("torch_npu", "torch_npu.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "torch_npu.utils.storage", storage_module)
    value = torch.randn(2, 3)
    source = save(tmp_path, {"state_dict": {"w": AsTorchNpuSaves(value, function)}})
    for name in ("torch_npu", "torch_npu.utils", "torch_npu.utils.storage"):
        monkeypatch.delitem(sys.modules, name)
    assert_same(exported(source), {"w": value})


def test_arguments_and_numpy_numbers_beside_the_weights_do_no_harm(tmp_path):
    extra = {"args": argparse.Namespace(lr=0.1), "best": np.float64(0.5), "history": np.arange(3)}
    assert_same(exported(save(tmp_path, {"model": WEIGHTS, **extra})), WEIGHTS)


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {os.environ['JUMAR_TEST_TRAP']}",)


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path, monkeypatch, legacy):
    trap = tmp_path / "trap"
    monkeypatch.setenv("JUMAR_TEST_TRAP", str(trap))
    source = tmp_path / "in.pth"
    torch.save({"model": WEIGHTS, "x": Evil()}, source, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(InputError, match=r"posix\.system, which Jumar does not build"):
        export_checkpoint(source, tmp_path / "out.pt")
    assert not trap.exists()


def test_a_plain_pickle_with_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_TEST_TRAP", str(tmp_path / "trap"))
    source = tmp_path / "in.pkl"
    source.write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(InputError):
        export_checkpoint(source, tmp_path / "out.pt")
    assert not (tmp_path / "trap").exists()


class Net(torch.nn.Linear):
    pass


def test_a_whole_model_is_refused_with_its_class(tmp_path):
    with pytest.raises(InputError, match=r"Net, which Jumar does not build .*model\.state_dict\(\)"):
        export_checkpoint(save(tmp_path, Net(1, 1)), tmp_path / "out.pt")


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_one_sentence_wherever_it_was_cut(tmp_path, share, legacy):
    source = tmp_path / "in.pth"
    torch.save({"model": {"w": torch.randn(5000)}}, source, _use_new_zipfile_serialization=not legacy)
    data = source.read_bytes()
    source.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="copy it again") as caught:
        export_checkpoint(source, tmp_path / "out.pt")
    assert "\n" not in str(caught.value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.pth"]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_checkpoint_or_one_sentence(tmp_path_factory, data):
    source = tmp_path_factory.mktemp("bytes") / "in.pth"
    source.write_bytes(data)
    with pytest.raises(InputError):
        export_checkpoint(source, source.with_name("out.pt"))


@pytest.mark.parametrize("value", [{}, {"epoch": 1}, [1, 2], torch.ones(2), {"model": {"w": "text"}}])
def test_a_file_without_weights_says_what_it_holds(tmp_path, value):
    with pytest.raises(InputError, match="holds no state dict"):
        export_checkpoint(save(tmp_path, value), tmp_path / "out.pt")


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        export_checkpoint(tmp_path / "no.pth", tmp_path / "out.pt")
    with pytest.raises(InputError, match="is a folder"):
        export_checkpoint(tmp_path, tmp_path / "out.pt")
    with pytest.raises(OutputError, match="is a folder"):
        export_checkpoint(save(tmp_path, WEIGHTS), tmp_path)


def test_an_existing_file_is_replaced_only_when_asked(tmp_path):
    source, output = save(tmp_path, WEIGHTS), tmp_path / "out.pt"
    output.write_bytes(b"mine")
    with pytest.raises(OutputError, match="--force"):
        export_checkpoint(source, output)
    assert output.read_bytes() == b"mine"
    assert_same(exported(source, force=True), WEIGHTS)


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    source, output = save(tmp_path, WEIGHTS), tmp_path / "out.pt"
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        export_checkpoint(source, tmp_path / "file" / "out.pt")
    monkeypatch.setattr("jumar.export.formats.registry.digest_of", lambda pieces: b"other")
    with pytest.raises(OutputError, match=r"did not come back with the values of 'fc\.weight'"):
        export_checkpoint(source, output)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "in.pth"]


def test_bits_are_compared_and_not_values():
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert same_bits(torch.zeros(3, 2, dtype=torch.bool).t(), torch.zeros(2, 3, dtype=torch.bool))


def test_options_are_checked_when_made():
    with pytest.raises(UsageError, match="fp32, fp16, bf16; got 'int8'"):
        CheckpointOptions(dtype="int8")
    with pytest.raises(UsageError, match="must not be empty"):
        CheckpointOptions(prefixes=("",))


def test_safetensors_comes_back(tmp_path):
    pytest.importorskip("safetensors")
    weight = torch.randn(3, 3)
    source = save(tmp_path, {"module.a": weight, "module.b": weight, "module.c": weight.t()})
    export_checkpoint(source, tmp_path / "out.safetensors")
    export_checkpoint(tmp_path / "out.safetensors", tmp_path / "back.pt")
    assert_same(torch.load(tmp_path / "back.pt", weights_only=True), {"a": weight, "b": weight, "c": weight.t()})
    (tmp_path / "out.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{broken")
    with pytest.raises(InputError, match="damaged"):
        export_checkpoint(tmp_path / "out.safetensors", tmp_path / "again.pt")


def test_a_file_of_another_kind_is_named_by_its_beginning(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    with pytest.raises(InputError, match="is no PyTorch checkpoint: it begins with b'import t'; name a file"):
        export_checkpoint(tmp_path / "train.py", tmp_path / "out.pt")


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (torch.ones(1).expand(1 << 33), "stand for 4 bytes"), (torch.empty(3, device="meta"), "has no values"),
        (torch.eye(3).to_sparse(), "must be a dense tensor, and it is sparse_coo"),
    ],
    ids=["expanded", "meta", "coo"],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_tensor_without_all_its_values_is_one_sentence(tmp_path, tensor, problem, suffix):
    source, output = save(tmp_path, {"w": tensor, "b": torch.ones(2)}), tmp_path / f"out{suffix}"
    with pytest.raises(InputError, match=problem):
        export_checkpoint(source, output)
    assert not output.exists()


def test_a_file_that_unpacks_to_far_more_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("jumar.base.outside.archives.SPARE_BYTES", 1 << 20)
    source = save(tmp_path, {"w": torch.ones(3)})
    packed = tmp_path / "packed.pth"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, bytes(8 << 20) if name.endswith("data/0") else old.read(name))
    with pytest.raises(InputError, match="its members are 8,"):
        export_checkpoint(packed, tmp_path / "out.pt")
