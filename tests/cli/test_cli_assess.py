from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.cli.main import main
from jumar.recording import RecordingWriter, RunEnd, RunInfo

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text("import torch\nfrom net import Net\nx = torch.zeros(2)\ntorch.linalg.inv(x)\n")
    (tmp_path / "net.py").write_text("import torch\nNet = torch.nn.DataParallel\n")
    return file


def test_the_verdict_comes_first(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", str(script)]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "1 of 3 APIs runs on Ascend910B1; 1 falls back to the host, 1 is unsupported."
    assert any("torch.nn.DataParallel" in line for line in rest)


def test_the_modules_beside_the_script_are_read_too(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["assess", str(script), "--json"])
    document = json.loads(capsys.readouterr().out)
    places = {row["name"]: row["where"][0]["path"] for row in document["rows"]}
    assert places["torch.nn.DataParallel"] == "net.py"


def test_fail_on_decides_the_exit_code(script: Path) -> None:
    (script.parent / "net.py").write_text("import torch\nNet = torch.nn.Linear\n")
    codes = [main(["assess", str(script), "--fail-on", level]) for level in ("error", "advice", "never")]
    assert codes == [0, 1, 0]


def test_json_has_every_row_and_nothing_else_on_stdout(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["assess", str(script), "--json", "--soc", "910b3", "--torch-version", "2.12"])
    document = json.loads(capsys.readouterr().out)
    assert (document["soc"], document["torch_version"], document["kind"]) == ("Ascend910B3", "2.12", "source")
    assert {row["status"] for row in document["rows"]} == {"native", "fallback", "unsupported"}
    assert document["num_by_status"]["native"] == 1


def test_a_recording_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = RecordingWriter(tmp_path / "rec", RunInfo(device="npu (emulated)", soc="Ascend910B4"))
    writer.write_step(0, [])
    writer.close(RunEnd(rank=0, status="finished"))
    assert main(["assess", str(tmp_path / "rec"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["soc"]) == ("recording", "Ascend910B4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.py"], "there is none"),
        (["train.py", "--soc", "H100"], "must be an Ascend SoC"),
        (["train.py", "--torch-version", "1.8"], "use 2.1, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 2.10, 2.11, 2.12"),
        (["broken.py"], "broken.py, line 1, column"),
        (["empty"], "holds no *.py"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(
    script: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(script.parent)
    (script.parent / "broken.py").write_text("def (:\n")
    (script.parent / "empty").mkdir()
    assert main(["assess", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["imagenet", "shufflenet", "gpt"])
def test_the_examples_are_mostly_supported_and_fit_a_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["assess", str(EXAMPLES / name / "train.py"), "--fail-on", "never"])
    lines = capsys.readouterr().out.splitlines()
    good, total = lines[0].split()[0], lines[0].split()[2]
    assert int(good) >= 0.9 * int(total)
    assert len(lines) <= 40


def test_more_findings_than_a_screen_holds_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("cudart", "get_arch_list", "check_error", "clock_rate", "power_draw", "temperature", "list_gpu_processes")
    calls = "".join(f"torch.cuda.{name}()\n" for name in (*names, "has_half", "has_magma", "jiterator"))
    (tmp_path / "a.py").write_text(f"import torch\n{calls}")
    main(["assess", str(tmp_path)])
    assert "2 more findings: --json prints all of them." in capsys.readouterr().out.splitlines()
