"""`jumar doctor --explain`, `--learn`, `--test-entries` and `opinfo` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.cli.main import main

LOG = "epoch 1\nAcmeError: device 3 lost its link to 10.1.2.3:5000 after 17.5 s\n"


@pytest.fixture(autouse=True)
def _config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("JUMAR_DOCTOR_ENTRIES", raising=False)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer(capsys, "doctor", "--explain", "0x7bc8a")
    assert (code, document["read_as"]) == (0, "507018")
    assert {"title", "cause", "action", "source", "example"} <= document["entries"][0].keys()


def test_a_code_is_explained_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", "EI0006"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("Cause", "Action", "Source", "Example"))


def test_a_rule_and_a_variable_are_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(capsys, "doctor", "--explain", "JM806")[1]["rule"]["code"] == "JM806"
    monkeypatch.setenv("HCCL_BUFFSIZE", "300")
    assert answer(capsys, "doctor", "--explain", "HCCL_BUFFSIZE")[1]["value"] == "300"


def test_what_is_unknown_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer(capsys, "doctor", "--explain", "kernel-oom-kiler")
    assert (code, document["near"]) == (1, ["kernel-oom-killer"])


def test_learning_proposes_writes_and_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_text(LOG)
    folder = tmp_path / "errors"
    assert main(["doctor", "--learn", str(log)]) == 0
    assert "AcmeError" in capsys.readouterr().out
    code, document = answer(capsys, "doctor", "--learn", str(log), "--entries", str(folder))
    written = Path(document["written"])
    assert (code, document["line"]) == (0, 2)
    assert "10.1.2.3" not in written.read_text()
    assert main(["doctor", "--learn", str(log), "--entries", str(tmp_path / "other")]) == 0
    capsys.readouterr()


def test_a_learned_entry_is_used_and_reported_until_it_is_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, folder = tmp_path / "run.log", tmp_path / "errors"
    log.write_text(LOG)
    written = Path(answer(capsys, "doctor", "--learn", str(log), "--entries", str(folder))[1]["written"])
    code, document = answer(capsys, "doctor", "--test-entries", "--entries", str(folder))
    assert (code, [fault["rule"] for fault in document["faults"]]) == (1, ["cause and action are filled in"])
    text = written.read_text().replace('"Not known yet."', '"The cable is loose."')
    written.write_text(text.replace('"Not known yet. Read the lines around it."', '"Plug it in."'))
    assert main(["doctor", "--test-entries", "--entries", str(folder)]) == 0
    capsys.readouterr()
    other = tmp_path / "other.log"
    other.write_text("AcmeError: device 7 lost its link to 10.9.9.9:1 after 3 s\n")
    code, document = answer(capsys, "doctor", str(other), "--entries", str(folder))
    assert document["findings"][0]["action"] == "Plug it in."
    assert any("of your own read from" in note for note in document["notes"])
    assert main(["doctor", "--learn", str(log), "--entries", str(folder)]) == 2


def test_a_log_without_an_unlisted_error_teaches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.log").write_text("epoch 1, loss 0.3\n")
    assert main(["doctor", "--learn", str(tmp_path / "run.log")]) == 2
    assert "no error that Jumar does not explain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--explain", "EI0006", "--test-entries"], "one work each"),
        (["--output", "x", "--test-entries"], "opinfo"),
        (["--yes"], "--fix"),
        (["opinfo"], "takes plogs"),
        (["--explain", " "], "takes a code"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == 2
    assert said in capsys.readouterr().err


def test_opinfo_writes_the_summary_into_a_folder_and_never_over_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = "[TensorDesc] DataType = 1, Format = 2, StorageFormat = 2, Shape = [8, 16], isConst = 0 "
    call = f"aclopCompile::aclOp = OpType: Cast, InputDesc[0]: {tensor}OutputDesc[0]: {tensor}"
    (tmp_path / "plog-1_2.log").write_text(
        f"[INFO] ASCENDCL(1,python3):2024-02-02-22:23:56.1 [a.cpp:1]1 x: {call}\n" * 2
    )
    words = ["doctor", "opinfo", str(tmp_path / "plog-1_2.log"), "-o", str(tmp_path)]
    code, document = answer(capsys, *words)
    assert (code, document["num_calls"], document["num_casts"]) == (0, 2, 2)
    assert (tmp_path / "ascend_op_info_summary.txt").read_text().startswith("Cast InputDesc[0]: [TensorDesc]")
    assert main(words) == 2
