"""ONNX: the file is really run and compared; without the packages one sentence says what to install."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.export import OnnxOptions, export_onnx
from jumar.export.onnx import Difference, _difference, build

SOURCE = """
import torch

def build():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(144, 5)), torch.randn(2, 3, 8, 8)

class Branch(torch.nn.Module):
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x

def branch():
    return Branch(), torch.ones(2)

def nothing():
    return None

def numbers():
    return torch.nn.ReLU(), (1, 2)
"""


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    name = "jumar_test_models"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return name


@pytest.mark.slow
def test_a_model_becomes_a_file_that_computes_the_same(tmp_path, module):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    report = export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(dynamic_batch=True))
    (difference,) = report.differences or ()
    assert (report.findings, difference.num_beyond, difference.shape) == ((), 0, (2, 5))
    assert difference.greatest_absolute < 1e-5
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    other = np.zeros((7, 3, 8, 8), dtype=np.float32)
    assert session.run(None, {session.get_inputs()[0].name: other})[0].shape == (7, 5)


@pytest.mark.slow
def test_a_model_that_cannot_be_exported_is_one_sentence(tmp_path, module):
    pytest.importorskip("onnxscript")
    with pytest.raises(InputError, match="cannot be exported to ONNX") as caught:
        export_onnx(f"{module}:branch", tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("opset", [0, -3, 99])
def test_an_operator_set_that_there_is_not_is_refused_before_the_work(tmp_path, module, opset):
    pytest.importorskip("onnxscript")
    with pytest.raises(UsageError, match=rf"--opset must be from 1 to \d+, .*; got {opset}\.") as caught:
        export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(opset=opset))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.slow
def test_an_operator_set_that_the_exporter_does_not_give_is_refused(tmp_path, module):
    pytest.importorskip("onnxscript")
    with pytest.raises(InputError, match=r"cannot be exported with the operator set 3: .* leave it out"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(opset=3))
    assert not (tmp_path / "m.onnx").exists()


def test_missing_packages_are_named(tmp_path, module, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name))
    monkeypatch.setattr("jumar.export.onnx.NEEDED", ("onnxscript",))
    with pytest.raises(InputError, match=r"needs onnxscript; pip install 'jumar\[export\]'"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx")


def test_the_output_is_checked_before_the_work(tmp_path, module):
    (tmp_path / "m.onnx").write_text("mine")
    with pytest.raises(OutputError, match="--force"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx")


def test_the_factory_gives_a_model_in_eval_mode_and_its_inputs(module):
    model, inputs = build(f"{module}:build")
    assert (model.training, [tuple(item.shape) for item in inputs]) == (False, [(2, 3, 8, 8)])


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("build", 'module:callable; got "build"'),
        ("no_such_module:build", "does not import"),
        ("{}:missing", "has no 'missing'"),
        ("{}:nothing", "must return"),
        ("{}:numbers", "must be tensors"),
    ],
)
def test_a_wrong_factory_is_one_sentence(module, factory, message):
    with pytest.raises(InputError, match=message):
        build(factory.format(module))


def difference(result: list[float], reference: list[float], options: OnnxOptions | None = None) -> Difference:
    return _difference(0, np.array(result, np.float32), np.array(reference, np.float32), options or OnnxOptions())


def test_a_difference_counts_what_is_beyond_the_tolerance():
    found = difference([1.0, 2.5, np.nan, np.inf], [1.0, 2.0, np.nan, np.inf])
    assert (found.num_beyond, found.greatest_absolute, found.greatest_relative) == (1, 0.5, 0.25)
    assert difference([1.0, 2.5], [1.0, 2.0], OnnxOptions(absolute_tolerance=0.6)).num_beyond == 0


def test_nan_against_a_number_is_a_difference():
    assert difference([np.nan], [1.0]).num_beyond == 1


def test_another_shape_is_a_difference():
    found = difference([1.0, 2.0], [1.0])
    assert (found.shape, found.reference_shape, found.num_beyond) == ((2,), (1,), 1)


def test_a_negative_tolerance_is_refused():
    with pytest.raises(UsageError, match="must not be negative"):
        OnnxOptions(relative_tolerance=-1)


def test_importing_the_room_needs_no_torch():
    import subprocess
    import sys

    code = "import sys, jumar.export, jumar.export.rules, jumar.advise.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_listed():
    import jumar.export

    assert all(hasattr(jumar.export, name) for name in jumar.export.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jumar.export.nonsense
