from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import DeviceError, InputError, ScriptError
from jumar.convert.assess import Assessment, Row, assess_source

SCRIPT = """\
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.cuda.amp import autocast
import numpy as np


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()
        self.dp = nn.Dropout1d(0.5)

    def forward(self, x):
        x = self.relu(F.gelu(x)).masked_fill(x > 0, 1.0)
        return torch.linalg.inv(x.double())


def main():
    net = nn.DataParallel(Net()).cuda()
    with autocast():
        print(torch.cuda.cudart(), np.linalg.inv(np.eye(2)), torch.float16)
"""


def assess(tmp_path: Path, text: str, soc: str = "Ascend910B1") -> Assessment:
    file = tmp_path / "train.py"
    file.write_text(text)
    return assess_source(file, soc, torch_version="2.13")


def row(assessment: Assessment, name: str) -> Row:
    return next(row for row in assessment.rows if row.name == name)


def test_aliases_and_from_imports_are_followed_to_the_public_name(tmp_path: Path) -> None:
    names = {row.name for row in assess(tmp_path, SCRIPT).rows}
    assert {"torch.nn.ReLU", "torch.nn.functional.gelu", "torch.cuda.amp.autocast", "torch.linalg.inv"} <= names


def test_other_libraries_are_not_taken_for_torch(tmp_path: Path) -> None:
    assert [row.name for row in assess(tmp_path, SCRIPT).rows if "numpy" in row.name] == []


def test_places_have_lines_and_columns_from_one(tmp_path: Path) -> None:
    place = row(assess(tmp_path, SCRIPT), "torch.linalg.inv").where[0]
    assert (place.path, place.line, place.column) == ("train.py", 16, 16)


def test_uses_of_one_api_are_counted_together(tmp_path: Path) -> None:
    found = row(assess(tmp_path, "import torch\na = torch.zeros(2)\nb = torch.zeros(3)\n"), "torch.zeros")
    assert (found.num_uses, [place.line for place in found.where]) == (2, [2, 3])


def test_methods_that_only_a_tensor_has_are_assessed(tmp_path: Path) -> None:
    names = {row.name for row in assess(tmp_path, SCRIPT).rows}
    assert {"torch.Tensor.masked_fill", "torch.Tensor.double", "torch.Tensor.cuda"} <= names


def test_a_modules_own_attribute_is_no_tensor_method(tmp_path: Path) -> None:
    assert [row.name for row in assess(tmp_path, SCRIPT).rows if row.name == "torch.Tensor.relu"] == []


def test_methods_in_a_file_without_torch_are_left_alone(tmp_path: Path) -> None:
    assert assess(tmp_path, "import pandas\nframe = pandas.DataFrame().clamp(1)\n").rows == ()


def test_the_verdict_counts_what_needs_a_device(tmp_path: Path) -> None:
    text = "import torch\ntorch.linalg.inv(torch.zeros(2, 2, dtype=torch.float16))\n"
    assert assess(tmp_path, text).verdict == "1 of 2 APIs runs on Ascend910B1; 1 falls back to the host."


def test_a_script_without_torch_is_said_to_use_none(tmp_path: Path) -> None:
    assert assess(tmp_path, "print(1)\n").verdict == "No PyTorch API that needs a device is used."


def test_each_kind_of_trouble_has_its_rule(tmp_path: Path) -> None:
    codes = {finding.code: finding for finding in assess(tmp_path, SCRIPT).findings}
    assert "torch.nn.DataParallel" in codes["JM201"].message
    assert "torch.nn.Dropout1d" in codes["JM202"].message
    assert "torch.linalg.inv" in codes["JM203"].message
    assert "float64" in codes["JM206"].message
    assert "torch.cuda.cudart" in codes["JM207"].message


def test_findings_come_the_most_severe_first(tmp_path: Path) -> None:
    severities = [finding.severity for finding in assess(tmp_path, SCRIPT).findings]
    assert severities == sorted(severities, reverse=True)


def test_unverified_apis_make_one_finding_together(tmp_path: Path) -> None:
    text = "import torch\ntorch.nn.Dropout1d()\ntorch.nn.utils.fuse_conv_bn_eval(1, 2)\n"
    found = [finding for finding in assess(tmp_path, text).findings if finding.code == "JM202"]
    assert len(found) == 1
    assert found[0].message.startswith("2 APIs are in no table for Ascend910B1")


def test_bfloat16_is_reported_only_where_the_chip_has_none(tmp_path: Path) -> None:
    text = "import torch\nx = torch.bfloat16\n"
    assert [f.code for f in assess(tmp_path, text, "Ascend910A").findings] == ["JM206"]
    assert [f.code for f in assess(tmp_path, text, "Ascend910B1").findings] == []


def test_a_folder_is_read_whole_without_hidden_and_foreign_folders(tmp_path: Path) -> None:
    for name in ("a.py", "pkg/b.py", ".git/c.py", "venv/d.py", "pkg/build/e.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import torch\ntorch.zeros(1)\n")
    places = row(assess_source(tmp_path), "torch.zeros").where
    assert [place.path for place in places] == ["a.py", str(Path("pkg/b.py"))]


def test_a_file_of_a_folder_that_does_not_parse_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text('print "loss"\n')
    (tmp_path / "new.py").write_text("import torch\ntorch.zeros(1)\n")
    assessment = assess_source(tmp_path)
    assert [row.name for row in assessment.rows] == ["torch.zeros"]
    assert [(finding.code, finding.where.path) for finding in assessment.findings] == [("JM208", "old.py")]


def test_a_named_file_that_does_not_parse_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"train\.py, line 2, column \d+: ") as caught:
        assess(tmp_path, "import torch\nx = 1 +* 2\n")
    assert "\n" not in str(caught.value)


def test_a_missing_path_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none"):
        assess_source(tmp_path / "none.py")
    with pytest.raises(InputError, match=r"holds no \*\.py"):
        assess_source(tmp_path)


def test_an_unknown_soc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="H100"):
        assess(tmp_path, SCRIPT, "H100")


def test_several_files_are_shown_relative_to_their_common_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    files = [tmp_path / "train.py", tmp_path / "pkg" / "net.py"]
    for file in files:
        file.write_text("import torch\ntorch.zeros(1)\n")
    places = row(assess_source(files), "torch.zeros").where
    assert {place.path for place in places} == {"train.py", str(Path("pkg/net.py"))}


def test_files_of_other_frameworks_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "ms.py").write_text("import mindspore as ms\nms.set_context(mode=0)\n")
    (tmp_path / "pt.py").write_text("import torch\ntorch.zeros(2)\n")
    assert "Not assessed, because they are of MindSpore: ms.py." in assess_source(tmp_path).notes
    with pytest.raises(ScriptError, match=r"ms\.py is a program of MindSpore, and `jumar assess` is for PyTorch"):
        assess_source(tmp_path / "ms.py")


def test_a_file_of_two_frameworks_is_assessed(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text("import mindspore as ms\nimport torch\ntorch.zeros(2)\n")
    assert row(assess_source(tmp_path / "both.py"), "torch.zeros").where


def test_a_script_that_only_leads_to_mindspore_is_no_script_without_findings(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import mindspore.nn as nn\n")
    (tmp_path / "main.py").write_text("import net\n")
    with pytest.raises(ScriptError, match=r"net\.py is a program of MindSpore"):
        assess_source(tmp_path)
