"""`jumar convert` and `jumar rule` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.cli.main import main
from jumar.soc.support import chosen

SCRIPT = "import torch\nmodel.cuda()\nstate = torch.load('m.pt')\n"
CONVERTED = "import torch\nimport torch_npu  # noqa: F401\nmodel.npu()\nstate = torch.load('m.pt')\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_converted_into_a_new_folder(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "-i", str(script), "-o", str(tmp_path / "out")]) == 0
    folder = tmp_path / "out" / "train_msft"
    assert (folder / "train.py").read_text() == CONVERTED
    assert script.read_text() == SCRIPT
    output = capsys.readouterr().out
    assert output.startswith(f"2 edits in 1 of 1 file for torch_npu {chosen().name} → {folder}\n")
    assert "JM112" in output
    document = json.loads((folder / "findings.json").read_text())
    assert {finding["code"] for finding in document["findings"]} == {"JM103", "JM107", "JM112"}
    subprocess.run(["git", "apply", str(folder / "changes.patch")], cwd=tmp_path, check=True)
    assert script.read_text() == CONVERTED


def test_a_folder_keeps_its_tree(tmp_path: Path) -> None:
    (tmp_path / "proj" / "sub").mkdir(parents=True)
    (tmp_path / "proj" / "sub" / "a.py").write_text("x.cuda()\n")
    (tmp_path / "proj" / "old.py").write_text("print 'cuda'\n")
    code = main(["convert", "-i", str(tmp_path / "proj"), "-o", str(tmp_path / "out"), "--fail-on", "never"])
    assert code == 0
    assert (tmp_path / "out" / "proj_msft" / "sub" / "a.py").read_text() == "x.npu()\n"
    assert (tmp_path / "out" / "proj_msft" / "old.py").read_text() == "print 'cuda'\n"


def test_a_dry_run_with_a_diff_prints_it_and_writes_nothing(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "-i", str(script), "--dry-run", "--diff"]) == 0
    output = capsys.readouterr()
    assert "\n-model.cuda()\n" in output.out
    assert "\n+model.npu()\n" in output.out
    assert "(nothing written)" in output.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_unsafe_edits_are_made_when_asked_for(script: Path, tmp_path: Path) -> None:
    assert main(["convert", "-i", str(script), "-o", str(tmp_path / "out"), "--unsafe"]) == 0
    assert "map_location='cpu'" in (tmp_path / "out" / "train_msft" / "train.py").read_text()


def test_json_is_one_document(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-i", str(script), "--dry-run", "--json", "--diff"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["num_edits"], document["num_changed"], document["output"]) == (2, 1, None)
    assert "+model.npu()" in document["diff"]


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 1), ("error", 0), ("never", 0)])
def test_the_exit_code_follows_the_worst_finding(script: Path, fail_on: str, code: int) -> None:
    assert main(["convert", "-i", str(script), "--dry-run", "--fail-on", fail_on]) == code


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], '"-i IN" must say what to convert'),
        (["-i", "nothing.py", "--dry-run"], "there is none of that name"),
        (["-i", "bad.py", "-o", "out"], "bad.py, line 2, column 1: it is not valid Python"),
        (["-i", "latin.py", "-o", "out"], "latin.py, line 1, column 2: its bytes are not utf-8 text"),
        (["-i", "train.py", "-o", "taken"], "exists already"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_two(
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(script.parent)
    Path("bad.py").write_text("import torch\nprint 'cuda'\n")
    Path("latin.py").write_bytes(b"'\xe9'\n")
    Path("taken/train_msft").mkdir(parents=True)
    assert main(["convert", *arguments]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("jumar: ")]
    assert len(errors) == 1
    assert sentence in errors[0]
    assert not Path("out").exists()


def test_converting_imports_no_torch(script: Path) -> None:
    code = (
        "import sys; from jumar.cli.main import main;"
        f"main(['convert', '-i', {str(script)!r}, '--dry-run']); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_rule_is_explained_by_code_in_any_case_and_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for name in ("JM108", "jm108", "cuda-device-guard"):
        assert main(["rule", name]) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1] == pages[2]
    assert "Why it matters" in pages[0]
    assert "x.device.type == 'npu'" in pages[0]


def test_without_a_code_every_rule_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    codes = [rule["code"] for rule in rules]
    assert codes == sorted(codes)
    assert {code[:3] for code in codes} >= {"JM1", "JM2", "JM3", "JM4", "JM9"}
    assert main(["rule"]) == 0
    table = capsys.readouterr().out
    assert [code for code in codes if code not in table] == []


@pytest.mark.parametrize(
    ("wrong", "near"), [("JM18", "JM1"), ("is-cda", "JM104 (is-cuda)"), ("zzzzzz", "`jumar rule`")]
)
def test_an_unknown_code_names_the_nearest(wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", wrong]) == 2
    assert near in capsys.readouterr().err
