"""From a checkpoint and a factory in one command, as document 004 writes it by hand; large weights in a file beside."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from jumar.base.errors import InputError, OutputError
from jumar.cli.main import main
from jumar.export import OnnxOptions, export_onnx

pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


class Block(nn.Module):
    """An inverted residual of MobileNetV2: expand, depthwise, project."""

    def __init__(self, width: int, expanded: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(width, expanded, 1, bias=False), nn.BatchNorm2d(expanded), nn.ReLU6()]
        layers += [nn.Conv2d(expanded, expanded, 3, 1, 1, groups=expanded, bias=False), nn.BatchNorm2d(expanded)]
        self.conv = nn.Sequential(*layers, nn.ReLU6(), nn.Conv2d(expanded, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x)


class Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.features = nn.Sequential(first, Block(8, 64), Block(8, 64))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


@pytest.fixture
def trained(tmp_path, monkeypatch) -> nn.Module:
    """A model whose checkpoint `mobile.pth.tar` was written under DistributedDataParallel; the factory's is another."""
    torch.manual_seed(1)
    model = Mobile().train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(torch.randn(4, 3, 32, 32)).sum().backward()
    optimizer.step()
    state = OrderedDict((f"module.{key}", value) for key, value in model.state_dict().items())
    whole = {"epoch": 3, "arch": "mobilenet_v2", "state_dict": state, "optimizer": optimizer.state_dict(), "best": 71.2}
    torch.save(whole, tmp_path / "mobile.pth.tar")
    module = types.ModuleType("mobilenet")
    module.build = lambda: (Mobile(), torch.randn(1, 3, 32, 32))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mobilenet", module)
    monkeypatch.chdir(tmp_path)
    return model.eval()


@pytest.mark.slow
def test_the_documents_recipe_from_pth_tar_to_onnx_is_one_command(trained, tmp_path, capsys):
    arguments = ["export", "onnx", "mobilenet:build", "mobilenetV2_npu.onnx", "--weights", "mobile.pth.tar"]
    arguments += ["--input-names", "actual_input_1", "--output-names", "output1", "--opset", "11"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "prefix module. taken from" in shown
    assert "does not take 0, not known 0" in shown
    written = onnx.load(tmp_path / "mobilenetV2_npu.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert written.opset_import[0].version == 11
    # The recipe by hand, as the document writes it.
    checkpoint = torch.load("mobile.pth.tar", map_location="cpu", weights_only=True)
    model = Mobile()
    model.load_state_dict({key[7:]: value for key, value in checkpoint["state_dict"].items()})
    x = torch.randn(1, 3, 32, 32)
    session = onnxruntime.InferenceSession(str(tmp_path / "mobilenetV2_npu.onnx"))
    (result,) = session.run(["output1"], {"actual_input_1": x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(result, model.eval()(x).numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result, trained(x).numpy(), rtol=1e-4, atol=1e-5)


def spoiled(tmp_path, change) -> None:
    whole = torch.load(tmp_path / "mobile.pth.tar", weights_only=True)
    change(whole["state_dict"])
    torch.save(whole, tmp_path / "mobile.pth.tar")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("module.classifier.1.bias"), r"lacks classifier\.1\.bias;.*--no-strict"),
        (lambda state: state.update({"module.more": torch.ones(1)}), "has more which the model lacks"),
        (lambda state: state.update({"module.classifier.1.bias": torch.ones(3)}), r"shape \(3,\) where .* \(10,\)"),
    ],
)
def test_weights_that_do_not_fit_are_listed(trained, tmp_path, change, message):
    spoiled(tmp_path, change)
    with pytest.raises(InputError, match=message) as caught:
        export_onnx("mobilenet:build", tmp_path / "m.onnx", OnnxOptions(weights="mobile.pth.tar"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


def test_weights_of_another_model_are_refused_though_not_strict(trained, tmp_path):
    torch.save({"a.weight": torch.ones(2)}, "other.pth")
    with pytest.raises(InputError, match=r"has no weight of the model: it has a\.weight"):
        export_onnx("mobilenet:build", tmp_path / "m.onnx", OnnxOptions(weights="other.pth", strict=False))


@pytest.mark.slow
def test_not_strict_says_what_the_factory_kept(trained, tmp_path, capsys):
    spoiled(tmp_path, lambda state: state.pop("module.classifier.1.bias"))
    arguments = ["export", "onnx", "mobilenet:build", "m.onnx", "--weights", "mobile.pth.tar", "--only", "state_dict"]
    assert main([*arguments, "--no-strict", "--opset", "18"]) == 0
    assert "not in the checkpoint, so the factory's: classifier.1.bias" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("opset", [11, 18])
def test_large_weights_have_one_file_beside_the_model(trained, tmp_path, opset):
    report = export_onnx("mobilenet:build", tmp_path / "m.onnx", OnnxOptions(opset=opset, one_file_bytes=1000))
    assert report.data == tmp_path / "m.onnx.data"
    assert report.data.stat().st_size > 1000
    assert report.data.stat().st_mode == report.output.stat().st_mode
    assert report.differences
    assert not report.differences[0].num_beyond
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data", "mobile.pth.tar"]
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    x = np.ones((1, 3, 32, 32), np.float32)
    names = {entry.value for item in onnx.load(str(tmp_path / "m.onnx"), load_external_data=False).graph.initializer
             for entry in item.external_data if entry.key == "location"}  # fmt: skip
    assert names == {"m.onnx.data"}
    assert onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0].shape == (1, 10)


def test_a_weights_file_that_is_there_is_not_replaced(trained, tmp_path):
    (tmp_path / "m.onnx.data").write_text("mine")
    with pytest.raises(OutputError, match=r"m\.onnx\.data exists"):
        export_onnx("mobilenet:build", tmp_path / "m.onnx", OnnxOptions(one_file_bytes=1000))
    assert (tmp_path / "m.onnx.data").read_text() == "mine"
