"""Which framework a program uses, by what it and the files beside it import."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import ScriptError
from jumar.capture.frameworks.choice import framework_of, must_be_torch
from jumar.capture.process.program import parse_program
from jumar.cli.main import EXIT_USAGE, main


def program(folder: Path, text: str, **others: str):
    (folder / "train.py").write_text(text)
    for name, other in others.items():
        file = folder / f"{name.replace('_in_', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(other)
    return parse_program([str(folder / "train.py")])


@pytest.mark.parametrize(
    ("text", "others", "wanted"),
    [
        ("import mindspore as ms", {}, "mindspore"),
        ("from mindspore import nn", {}, "mindspore"),
        ("def main():\n    import mindspore.nn as nn", {}, "mindspore"),
        ("import torch", {}, "torch"),
        ("import torch\nimport mindspore", {}, "torch"),
        ("import mindspore\nimport torch", {}, "mindspore"),
        ("import numpy", {}, "torch"),
        ("import tensorflow as tf", {}, "tensorflow"),
        ("from tensorflow import keras", {}, "tensorflow"),
        ("from npu_bridge.npu_init import *", {}, "tensorflow"),
        ("import npu_device", {}, "tensorflow"),
        ("import numpy\nimport tensorflow as tf\nimport torch", {}, "torch"),
        ("import keras", {}, "tensorflow"),
        ("from model import Net", {"model": "import tensorflow as tf"}, "tensorflow"),
        ("from model import Net", {"model": "import mindspore"}, "mindspore"),
        ("from model import Net", {"model": "import torch"}, "torch"),
        ("from source.model import Net", {"source_in_model": "from mindspore import nn"}, "mindspore"),
        ("import mindspore_lite_like", {}, "torch"),
        ("this is no Python", {}, "torch"),
    ],
)
def test_the_framework_is_that_of_the_imports(tmp_path: Path, text: str, others: dict[str, str], wanted: str) -> None:
    assert framework_of(program(tmp_path, text, **others)) == wanted


def test_files_that_import_each_other_end(tmp_path: Path) -> None:
    assert framework_of(program(tmp_path, "import a", a="import b", b="import a")) == "torch"


def test_commands_for_pytorch_say_so(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"train\.py is a MindSpore program, and `jumar port` is for PyTorch"):
        must_be_torch(program(tmp_path, "import mindspore"), "jumar port")


@pytest.mark.parametrize("words", [["tune"], ["tune", "--job-type", "4"]])
def test_tuning_refuses_a_mindspore_script(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import mindspore")
    assert main([*words, str(script)]) == EXIT_USAGE
    assert "is a MindSpore program, and `jumar tune` is for PyTorch" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["import mindspore\nimport torch", "import torch\nimport mindspore"])
def test_a_script_that_imports_torch_too_is_taken(tmp_path: Path, text: str) -> None:
    must_be_torch(program(tmp_path, text), "jumar port")


def test_a_module_with_torch_does_not_make_a_mindspore_script_one_of_pytorch(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="is a MindSpore program"):
        must_be_torch(program(tmp_path, "import mindspore\nimport weights", weights="import torch"), "jumar port")
