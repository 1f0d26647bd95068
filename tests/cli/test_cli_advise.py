"""`jumar advise` from the command line: output, exit codes, bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "advise" / "bottlenecks"))

from step_builder import StepBuilder, write_recording

from jumar.cli.main import main


def recording_with_shuffle(path: Path) -> Path:
    b = StepBuilder()
    for block in range(4):
        x = b.tensor(8, 4, 256)
        parts = b.view(x, (8, 2, 2, 256), (1024, 512, 256, 1))
        turned = b.view(x, (8, 2, 2, 256), (1024, 256, 512, 1))
        b.op("aten::transpose.int", [parts], turned, module=f"stage.{block}", source="shuffle.py:9")
        b.op("aten::clone", [turned], b.tensor(8, 2, 2, 256), module=f"stage.{block}", source="shuffle.py:10")
    return write_recording(path / "recording", [b])


def clean_recording(path: Path) -> Path:
    b = StepBuilder()
    b.op("aten::relu", [b.tensor(64, 64)], b.tensor(64, 64), module="act")
    return write_recording(path / "recording", [b])


def test_the_answer_comes_first_and_what_was_not_checked_is_on_the_screen(tmp_path, capsys):
    assert main(["advise", str(recording_with_shuffle(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if line.strip())
    assert "`aten::transpose.int` at shuffle.py:9 leaves tensors non-contiguous" in first
    assert any("JM403 changing-shapes" in line for line in lines)
    assert len(lines) < 60


def test_a_clean_recording_says_what_ran_and_what_did_not(tmp_path, capsys):
    assert main(["advise", str(clean_recording(tmp_path)), "--fail-on", "advice"]) == 0
    out = capsys.readouterr().out
    assert "No bottleneck found by the 10 rules that ran; 3 rules could not be checked or not fully." in out


def test_fail_on_advice_makes_a_bottleneck_an_exit_code(tmp_path, capsys):
    recording = str(recording_with_shuffle(tmp_path))
    assert main(["advise", recording, "--fail-on", "advice"]) == 1
    assert main(["advise", recording, "--fail-on", "warning"]) == 0
    capsys.readouterr()


def test_json_is_one_document_with_findings_operators_steps_and_gaps(tmp_path, capsys):
    assert main(["advise", str(recording_with_shuffle(tmp_path)), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert [finding["code"] for finding in document["findings"]] == ["JM402"]
    assert {item["code"] for item in document["not_checked"]} == {"JM403", "JM408", "JM410"}
    assert document["operators"][0]["name"] == "aten::clone"
    assert document["steps"][0]["num_operators"] == 4


def test_the_report_is_one_html_file_and_is_not_replaced_without_force(tmp_path, capsys):
    recording, page = str(recording_with_shuffle(tmp_path)), tmp_path / "page.html"
    assert main(["advise", recording, "--report", str(page)]) == 0
    text = page.read_text()
    assert "shuffle.py:9" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert main(["advise", recording, "--report", str(page)]) == 2
    assert main(["advise", recording, "--report", str(page), "--force"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent"),
        (["recording", "--soc", "Ascend999"], "Ascend999"),
        (["recording", "--rank", "5"], "must have rank 5"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(tmp_path, capsys, monkeypatch, arguments, said):
    clean_recording(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["advise", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (sentence,) = [line for line in captured.err.splitlines() if line.startswith("jumar: ")]
    assert said in sentence
