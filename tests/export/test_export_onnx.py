"""ONNX: the file is really run and compared; without the packages one sentence says what to install."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.export import OnnxOptions, export_onnx
from jumar.export.onnx.compare import Difference
from jumar.export.onnx.compare import difference as difference_of
from jumar.export.onnx.factory import build
from jumar.export.onnx.options import parse_dynamic

pytest.importorskip("onnxscript")

SOURCE = """
import torch
from torch import nn

def build(batch=2):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(144, 5)), torch.randn(batch, 3, 8, 8)

def one():
    return build(1)

class Branch(nn.Module):
    def forward(self, x):
        if float(x.sum()) > 0:
            return x
        return -x

def branch():
    return Branch(), torch.ones(2)

class Values(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x).real

def values():
    return Values(), torch.eye(3)

class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(int(x.shape[0]), -1).sum(0)

def fixed():
    return Fixed(), torch.ones(2, 3, 4)

class Even(nn.Module):
    def forward(self, x):
        if x.shape[0] % 2:
            raise ValueError("an even number of rows, please")
        return x * 2

def even():
    return Even(), torch.ones(2, 3)

class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)

def noise():
    return Noise(), torch.ones(2)

class Wants(nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 2)

def stops():
    return Wants(), torch.ones(2, 3)

def two_few():
    return nn.LSTM(4, 5), ()

def nothing():
    return None

def numbers():
    return nn.ReLU(), (1, 2)

def too_many():
    return nn.ReLU(), (torch.ones(2), torch.ones(2))

def nested():
    return nn.LSTM(4, 5, 2), (torch.randn(3, 2, 4), (torch.zeros(2, 2, 5), torch.zeros(2, 2, 5)))
not_callable = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    name = "jumar_test_models"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["build", "one"])
def test_a_model_becomes_a_file_that_computes_the_same_for_any_batch(tmp_path, module, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    report = export_onnx(f"{module}:{name}", tmp_path / "m.onnx", OnnxOptions(dynamic_batch=True, opset=18))
    (difference,) = report.differences or ()
    assert (report.findings, difference.num_beyond, difference.shape[1:]) == ((), 0, (5,))
    assert difference.greatest_absolute < 1e-5
    assert [(dict(check.sizes), check.agrees) for check in report.other_sizes] == [
        ({"batch": {"build": 3}.get(name, 2)}, True)
    ]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    other = np.zeros((7, 3, 8, 8), dtype=np.float32)
    assert session.run(None, {session.get_inputs()[0].name: other})[0].shape == (7, 5)
    assert session.get_inputs()[0].shape[0] == session.get_outputs()[0].shape[0] == "batch"


@pytest.mark.slow
@pytest.mark.parametrize("opset", [None, 11, 18])
def test_a_branch_on_a_value_is_refused_whatever_the_exporter(tmp_path, module, opset, capfd):
    with pytest.raises(
        InputError, match=r"turns a tensor's value into a Python value at .*:\d+.*torch\.where"
    ) as caught:
        export_onnx(f"{module}:branch", tmp_path / "m.onnx", OnnxOptions(opset=opset))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.glob("*onnx*")) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_operator_that_no_exporter_has_is_named(tmp_path, module, capfd):
    with pytest.raises(InputError, match=r"operator set 11 .*aten::linalg_eig.*write it otherwise") as caught:
        export_onnx(f"{module}:values", tmp_path / "m.onnx", OnnxOptions(opset=11))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("opset", [0, -3, 99])
def test_an_operator_set_that_there_is_not_is_refused_before_the_work(tmp_path, module, opset):
    with pytest.raises(UsageError, match=rf"--opset must be from 1 to \d+, .*; got {opset}\.") as caught:
        export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(opset=opset))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.slow
def test_an_operator_set_that_no_exporter_gives_is_refused(tmp_path, module):
    with pytest.raises(InputError, match=r"cannot be exported with the operator set 3 .* leave it out"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(opset=3))
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.slow
def test_a_size_that_the_trace_fixed_is_found(tmp_path, module):
    report = export_onnx(f"{module}:fixed", tmp_path / "m.onnx", OnnxOptions(opset=11, dynamic_batch=True))
    assert report.exporter == "TorchScript"
    assert all(item.num_beyond == 0 for item in report.differences or ())
    assert {finding.code for finding in report.findings} & {"JM702", "JM711"}
    assert [check.agrees for check in report.other_sizes] == [False]


@pytest.mark.slow
def test_sizes_that_the_model_refuses_are_no_fault_of_the_file(tmp_path, module):
    report = export_onnx(f"{module}:even", tmp_path / "m.onnx", OnnxOptions(opset=11, dynamic={"x": {0: "rows"}}))
    assert [(dict(check.sizes), check.agrees) for check in report.other_sizes] == [({"rows": 4}, True)]
    assert report.findings == ()


@pytest.mark.slow
def test_a_model_that_draws_numbers_is_not_called_equal(tmp_path, module):
    report = export_onnx(f"{module}:noise", tmp_path / "m.onnx", OnnxOptions(opset=18))
    assert report.differences is None
    assert "other values in each run" in report.not_compared


def test_missing_packages_are_named(tmp_path, module, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name))
    with pytest.raises(InputError, match=r"needs onnxscript; pip install 'jumar\[export\]'"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx")


@pytest.mark.slow
def test_without_the_runtime_nothing_is_called_equal_and_no_conversion_is_trusted(tmp_path, module, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    report = export_onnx(f"{module}:build", tmp_path / "m.onnx", OnnxOptions(opset=16, dynamic_batch=True))
    assert (report.differences, report.other_sizes, report.exporter) == (None, (), "TorchScript")
    assert "not installed" in report.not_compared


def test_the_output_is_checked_before_the_work(tmp_path, module):
    (tmp_path / "m.onnx").write_text("mine")
    with pytest.raises(OutputError, match="--force"):
        export_onnx(f"{module}:build", tmp_path / "m.onnx")


def test_the_factory_gives_a_model_in_eval_mode_and_its_inputs(module):
    built = build(f"{module}:build")
    assert (built.model.training, built.names, [tuple(item.shape) for item in built.tensors]) == (
        False, ("input",), [(2, 3, 8, 8)],
    )  # fmt: skip


def test_tensors_within_arguments_have_names_of_their_own(module):
    assert build(f"{module}:nested").names == ("input", "hx_0", "hx_1")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("build", 'module:callable; got "build"'),
        ("no_such_module:build", "does not import"),
        ("{}:missing", "has no 'missing'"),
        ("{}:nothing", "must return"),
        ("{}:numbers", "must be tensors"),
        ("{}:two_few", "must be tensors"),
        ("{}:too_many", "do not fit the model's forward"),
        ("{}:not_callable", "must be callable"),
    ],
)
def test_a_wrong_factory_is_one_sentence(module, factory, message):
    with pytest.raises(InputError, match=message) as caught:
        build(factory.format(module))
    assert "\n" not in str(caught.value)


def test_a_model_that_does_not_run_is_one_sentence(tmp_path, module):
    with pytest.raises(InputError, match="does not run on its example inputs"):
        export_onnx(f"{module}:stops", tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (OnnxOptions(dynamic={"y": {0: "n"}}), "the inputs are input"),
        (OnnxOptions(dynamic={"input": {4: "n"}}), "has 4 axes"),
        (OnnxOptions(dynamic={"input": {0: "n", 1: "n"}}), "one name is one size"),
        (OnnxOptions(input_names=("a", "b")), "must name 1 inputs"),
        (OnnxOptions(output_names=("a", "b")), "must name the 1 outputs"),
    ],
)
def test_an_input_or_axis_that_there_is_not_is_refused(tmp_path, module, options, message):
    with pytest.raises(UsageError, match=message):
        export_onnx(f"{module}:build", tmp_path / "m.onnx", options)


def test_open_axes_are_read():
    assert parse_dynamic(["x:0=batch,2=height", "mask:-1", "x:1=width"]) == {
        "x": {0: "batch", 2: "height", 1: "width"}, "mask": {-1: "mask_m1"},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["x", "x:", "x:a", "x:0=1a", ":0=n", "x:0=a,0=b", "x:0==b", "x:0=a b"])
def test_a_wrong_axis_is_refused(text):
    with pytest.raises(UsageError, match="--dynamic"):
        parse_dynamic([text])


def difference(result: list[float], reference: list[float], options: OnnxOptions | None = None) -> Difference:
    arrays = np.array(result, np.float32), np.array(reference, np.float32)
    return difference_of(0, "y", *arrays, options or OnnxOptions())


def test_a_difference_counts_what_is_beyond_the_tolerance():
    found = difference([1.0, 2.5, np.nan, np.inf], [1.0, 2.0, np.nan, np.inf])
    assert (found.num_beyond, found.greatest_absolute, found.greatest_relative) == (1, 0.5, 0.25)
    assert difference([1.0, 2.5], [1.0, 2.0], OnnxOptions(absolute_tolerance=0.6)).num_beyond == 0


def test_nan_against_a_number_is_a_difference():
    assert difference([np.nan], [1.0]).num_beyond == 1


def test_another_shape_is_a_difference():
    found = difference([1.0, 2.0], [1.0])
    assert (found.shape, found.reference_shape, found.num_beyond) == ((2,), (1,), 1)


@pytest.mark.parametrize(
    "given",
    [{"relative_tolerance": -1}, {"input_names": ("a", "a")}, {"output_names": ("",)}, {"strict": False},
     {"only": "model"}, {"one_file_bytes": 3_000_000_000}],
)  # fmt: skip
def test_wrong_options_are_refused(given):
    with pytest.raises(UsageError):
        OnnxOptions(**given)


@pytest.mark.slow
def test_the_command_says_which_exporter_and_why(tmp_path, module, capsys):
    from jumar.cli.main import main

    output = tmp_path / "m.onnx"
    arguments = ["export", "onnx", f"{module}:build", str(output), "--opset", "11", "--dynamic", "input:0=n"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "exporter: TorchScript, because torch.export's exporter leaves the operator set at" in text
    assert "n=3: 1 output compared, all within the tolerance" in text
    assert main([*arguments, "--force", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["opset"], document["atc"]["not_taken"], document["atc"]["unknown"]) == (11, {}, {})


def test_importing_the_room_needs_no_torch():
    import subprocess

    code = "import sys, jumar.export, jumar.export.rules, jumar.advise.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_listed():
    import jumar.export

    assert all(hasattr(jumar.export, name) for name in jumar.export.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jumar.export.nonsense
