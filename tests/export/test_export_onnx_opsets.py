"""ONNX at each operator set from 11 to 22: every kind of model is written, checked, run and compared."""

from __future__ import annotations

import sys
import types

import onnx_models
import pytest

from jumar.export import OnnxOptions, export_onnx
from jumar.export.onnx.atc import table

pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

OPSETS = range(11, 23)
NAMES = ("convolution", "lstm", "attention", "encoder", "normal", "groups", "larger", "embedding", "triangle")


@pytest.fixture
def factory(request, monkeypatch) -> str:
    module = types.ModuleType("jumar_test_zoo")
    model, inputs, _ = onnx_models.models()[request.param]
    module.build = lambda: (model, inputs)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jumar_test_zoo", module)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("factory", NAMES, indirect=True)
def test_a_model_agrees_with_pytorch_at_the_operator_set_asked_for(tmp_path, factory, opset, capfd):
    dynamic = onnx_models.models()[factory][2]
    output = tmp_path / "m.onnx"
    report = export_onnx("jumar_test_zoo:build", output, OnnxOptions(opset=opset, dynamic=dynamic))
    written = onnx.load(output)
    onnx.checker.check_model(written, full_check=True)
    assert {item.domain: item.version for item in written.opset_import}[""] == report.opset == opset
    assert report.exporter_reason
    checks = [check.agrees for check in report.other_sizes]
    assert report.differences, report.not_compared
    assert not any(item.num_beyond for item in report.differences)
    labels = {label for axes in dynamic.values() for label in axes.values()}
    assert (all(checks), bool(checks), report.not_tried) == (True, bool(labels), ())
    assert {label for check in report.other_sizes for label in check.sizes} == labels
    for item in written.graph.input:
        dims = item.type.tensor_type.shape.dim
        assert all(dims[axis].dim_param == label for axis, label in dynamic.get(item.name, {}).items())
    assert {finding.code for finding in report.findings} <= {"JM712", "JM713"}
    assert bool(report.atc.not_taken) == (opset > table().newest)
    assert report.atc.unknown.keys() <= {"Gelu", "GroupNormalization"}
    assert capfd.readouterr() == ("", "")
