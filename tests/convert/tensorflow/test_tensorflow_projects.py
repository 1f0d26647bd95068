"""Folders of TensorFlow: each file by its own framework, the command's options, and the reports."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pytest
from click.testing import CliRunner

from jumar.cli.main import cli
from jumar.convert import ConvertOptions, convert_tree
from jumar.convert.model.options import TensorFlowOptions

TF = "import tensorflow.compat.v1 as tf\nimport util\nwith tf.Session(config=util.config()) as s:\n    s.run(x)\n"
UTIL = "import tensorflow.compat.v1 as tf\n\n\ndef config():\n    return tf.ConfigProto()\n"
TORCH = "import torch\nx = torch.ones(2).cuda()\n"
PLAIN = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"


def project(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


def results(folder: Path, options: ConvertOptions | None = None) -> dict[str, str]:
    return {each.path: each.after.decode() for each in convert_tree(folder, options, cache=False).files}


def test_each_file_is_converted_by_its_own_framework(tmp_path: Path) -> None:
    found = results(project(tmp_path / "both", train=TF, util=UTIL, net=TORCH, plain=PLAIN))
    assert "RewriterConfig" in found["util.py"]
    assert found["train.py"] == TF
    assert ".npu()" in found["net.py"]
    assert "CUDA_VISIBLE_DEVICES" in found["plain.py"]


def test_files_without_a_framework_are_tensorflows_where_all_others_are(tmp_path: Path) -> None:
    assert "ASCEND_DEVICE_ID" in results(project(tmp_path / "all", train=TF, util=UTIL, plain=PLAIN))["plain.py"]


def test_the_framework_can_be_said(tmp_path: Path) -> None:
    folder = project(tmp_path / "plain", plain=PLAIN)
    assert "ASCEND_DEVICE_ID" in results(folder, ConvertOptions(framework="tensorflow"))["plain.py"]
    assert results(folder)["plain.py"] == PLAIN


def test_the_entry_script_can_be_said(tmp_path: Path) -> None:
    code = "import tensorflow as tf\nbuild(tf.keras.Sequential())\n"
    folder = project(tmp_path / "two", start=code, other=code)
    found = results(folder, ConvertOptions(tensorflow=TensorFlowOptions(main="start.py")))
    assert "npu_device.open()" in found["start.py"]
    assert found["other.py"] == code


def test_a_file_of_keras_alone_goes_by_the_project(tmp_path: Path) -> None:
    keras = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.fit(x, y)\n"
    assert "npu_device.open()" in results(project(tmp_path / "two", train=keras))["train.py"]
    assert "keras.backend.set_session" in results(project(tmp_path / "one", train=keras, util=UTIL))["train.py"]


def test_results_come_out_of_the_cache_with_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "cache"))
    padding = "# " + "x" * 210_000 + "\n"
    folder = project(tmp_path / "large", train=TF + padding, util=UTIL, plain=PLAIN)
    first = {each.path: each for each in convert_tree(folder).files}
    again = {each.path: each for each in convert_tree(folder).files}
    assert {path: each.after for path, each in first.items()} == {path: each.after for path, each in again.items()}
    (folder / "net.py").write_text(TORCH, "utf-8")
    third = {each.path: each for each in convert_tree(folder).files}
    assert b"ASCEND_DEVICE_ID" in first["plain.py"].after
    assert b"ASCEND_DEVICE_ID" not in third["plain.py"].after


def test_the_command_says_the_coverage_and_writes_the_report_of_apis(tmp_path: Path) -> None:
    code = (
        "import tensorflow.compat.v1 as tf\nx = tf.placeholder(tf.float64, [2])\ns = tf.Session()\ny = tf.add(x, x)\n"
    )
    folder = project(tmp_path / "one", train=code)
    done = CliRunner().invoke(cli, ["convert", "-i", str(folder), "-o", str(tmp_path / "out")])
    assert "for TensorFlow's NPU adapter" in done.output
    assert "4 uses of TensorFlow's names: 2 no limit known, 1 changed by the tool, 1 not supported" in done.output
    made = tmp_path / "out" / "one_msft"
    told = json.loads((made / "tensorflow_api.json").read_text("utf-8"))
    assert [row["status"] for row in told["apis"]] == [
        "no limit known", "not supported", "changed by the tool", "no limit known",
    ]  # fmt: skip
    rows = list(openpyxl.load_workbook(made / "tensorflow_api.xlsx")["APIs"].values)
    assert rows[1][:4] == ("tf.float64", "not supported", "train.py", 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--framework", "torch", "-d", "horovod"], '"-d" is for scripts of TensorFlow'),
        (["-m", "none.py"], '"-m none.py" must be a script'),
    ],
)
def test_options_that_have_no_effect_are_wrong_use(tmp_path: Path, words: list[str], said: str) -> None:
    folder = project(tmp_path / "one", train=TF)
    done = CliRunner().invoke(cli, ["convert", "-i", str(folder), "--dry-run", *words])
    assert done.exit_code == 2 or done.exception is not None
    assert said in f"{done.output}{done.exception}"
