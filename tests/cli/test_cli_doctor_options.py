"""`jumar doctor options A B` on commands, files and banks; `jumar bank why-miss`; the vendor's spelling for tuning."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))
from tune_builders import gain, measured, mm_row, mm_task, write_recording

from jumar.cli.commands.tune.entry import command
from jumar.cli.commands.tune.vendor import translated
from jumar.cli.main import main
from jumar.tune import Bank, this_machine
from jumar.tune.bank.entry import Tried
from jumar.tune.model.task import Policy

NATIVE = Policy(kind="Impl", provider="aten_native")
AOE = "aoe --job_type=2 --model_path=./dump_path --input_shape=x:1,3 --precision_mode=force_fp32"
ATC = "atc --model=m.onnx --framework=5 --input_shape=x:8,3 --output=m"
KNOWN = frozenset(name for one in command.params for name in (*one.opts, *one.secondary_opts))


def filled(folder: Path, *sizes: int) -> str:
    folder.mkdir()
    bank = Bank.open(folder)
    for size in sizes:
        bank.accept(mm_task(size), this_machine(), NATIVE, incumbent=(), gain=gain(1.5), min_gain=0.02,
                    tried=[Tried(policy=NATIVE, outcome=measured(1.5))])  # fmt: skip
    bank.close()
    return str(folder)


def answer(capsys, *words: str) -> tuple[int, dict]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_two_commands_give_each_difference_and_the_corrected_command(capsys):
    assert main(["doctor", "options", AOE, ATC]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "2 options that must agree compared, 2 apart" in text
    assert "input_shape shape of the inputs x:1,3 x:8,3" in text
    assert "precision_mode dtype of some operators force_fp32 not set" in text
    right = "atc --model=m.onnx --framework=5 --input_shape=x:1,3 --output=m --precision_mode=force_fp32"
    assert right in text
    code, document = answer(capsys, "doctor", "options", AOE, right)
    assert (code, document["findings"], document["agreement"]["apart"]) == (0, [], [])
    assert document["agreement"]["compared"] == ["input_shape", "precision_mode"]


def test_commands_may_lie_in_text_files(tmp_path, capsys):
    (tmp_path / "tune.txt").write_bytes(AOE.replace(" --", " \\\r\n  --").encode() + b"\r\n")
    (tmp_path / "use.sh").write_text(f"#!/bin/bash\n{ATC}\n")
    code, document = answer(capsys, "doctor", "options", str(tmp_path / "tune.txt"), str(tmp_path / "use.sh"))
    assert (code, [one["option"] for one in document["agreement"]["apart"]]) == (1, ["input_shape", "precision_mode"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.py", ATC], "there is none"),
        ([AOE, "atc --input_shape='x"], "not closed"),
        ([], "takes a script, command or bank"),
        ([AOE, ATC, ATC], "takes a script, command or bank"),
    ],
)
def test_wrong_use_is_one_sentence(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "options", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_two_banks_are_compared_by_kind(tmp_path, capsys):
    one, other = filled(tmp_path / "a", 4, 5), filled(tmp_path / "b", 5, 8)
    code, document = answer(capsys, "doctor", "options", one, other)
    (finding,) = document["findings"]
    assert (code, finding["code"], finding["evidence"]["kind"]) == (0, "JM606", "shape")
    assert "input_shape" in finding["evidence"]["options"]
    assert main(["doctor", "options", one, other]) == 0
    assert "2 works in the first, 2 in the second, 1 in both" in capsys.readouterr().out
    assert main(["doctor", "options", one, one]) == 0
    assert "Nothing that both know differs" in capsys.readouterr().out
    assert main(["doctor", "options", one]) == 2
    assert "compared with another one" in capsys.readouterr().err


def test_a_bank_and_a_command_are_compared_by_shapes(tmp_path, capsys):
    bank = filled(tmp_path / "a", 4)
    shape = ",".join(map(str, next(iter(mm_task(4).tensors.values())).shape))
    code, document = answer(capsys, "doctor", "options", bank, f"atc --input_shape=x:{shape} --precision_mode=fp16")
    assert (code, document["missing"], document["not_told_by_a_bank"]) == (0, [], ["precision_mode"])
    code, document = answer(capsys, "doctor", "options", "atc --input_shape=x:77,3 --output=o", bank)
    assert (document["missing"], document["findings"][0]["code"]) == (["x:77,3"], "JM606")
    assert main(["doctor", "options", bank, "atc --output=o"]) == 2
    assert "no --input_shape" in capsys.readouterr().err


def test_why_a_bank_misses_names_the_options_that_must_agree(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bank = filled(tmp_path / "a", 4)
    recording = str(write_recording(tmp_path / "recording", [[mm_row(8)]]))
    assert main(["bank", "why-miss", recording, "--bank", bank]) == 0
    text = capsys.readouterr().out
    assert "Another shape: these options must be the same in tuning and use: input_shape" in text
    words = ["--tuned-with", AOE, "--used-with", ATC]
    _, document = answer(capsys, "bank", "why-miss", recording, "--bank", bank, *words)
    assert document["must_agree"]["shape"][0] == "input_shape"
    assert [one["option"] for one in document["options"]["apart"]] == ["input_shape", "precision_mode"]
    assert main(["bank", "why-miss", recording, "--bank", bank, "--tuned-with", AOE]) == 2
    assert "give both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words", "dropped"),
    [
        (["--job_type=2", "--model_path=./dump_path"], ["--job-type=2", "--model-path=./dump_path"], []),
        (["--job_type", "2", "--model", "m.onnx"], ["--job-type", "2", "m.onnx"], []),
        (["-j", "1", "-m", "m.onnx", "-f", "5"], ["--job-type", "1", "m.onnx"], ["--framework"]),
        (["--soc_version=A", "--log", "info", "--soc_version=A"], [], ["--soc_version", "--log"]),
        (["--device=0", "m.onnx"], ["m.onnx"], ["--device"]),
        (["--device=npu", "--device", "cpu"], ["--device=npu", "--device", "cpu"], []),
        (["--Fnonhomo_split", "--tune_optimization_level=O1"], ["--Fnonhomo_split", "--deeper"], []),
        (["--tune_optimization_level=O2"], [], ["--tune_optimization_level"]),
        (["--input_shape=x:1,3", "--made_up=1"], ["--input-shape=x:1,3", "--made_up=1"], []),
        (["a.py", "--", "--job_type=2", "--framework", "5"], ["a.py", "--", "--job_type=2", "--framework", "5"], []),
        (["--aicore_num=8", "--precision_mode=force_fp16"], [], ["--aicore_num", "--precision_mode"]),
    ],
)  # fmt: skip
def test_the_vendors_spelling_is_taken(given, words, dropped):
    assert translated(given, KNOWN) == (words, dropped)


def test_options_without_effect_are_told_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "--job_type=2", "--model_path=./none", "--soc_version=Ascend310", "--framework=5"]) == 2
    error = capsys.readouterr().err
    assert error.count("without effect here, options of aoe: --soc_version, --framework.") == 1
