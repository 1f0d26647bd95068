"""What `jumar tune` takes from its surroundings is checked before anything is measured."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))

from tune_builders import write_recording

from jumar.base.errors import OutputError
from jumar.cli.commands.tune.setting import check_report, setting_of
from jumar.cli.main import main
from jumar.tune import TuneOptions
from jumar.tune.search.tasks.extract import read_selection

DOCUMENTED = ("TE_PARALLEL_COMPILER", "TUNING_PARALLEL_NUM", "RUN_LOOP", "AOE_MODE", "REPEAT_TUNE", "ASCEND_DEVICE_ID")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    for name in (*DOCUMENTED, "ASCEND_CACHE_PATH", "ASCEND_HOME_PATH", "JUMAR_AOE_INI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path))
    monkeypatch.setattr("jumar.tune.measure.conditions.preconditions.time.sleep", lambda seconds: None)


def config(tmp_path, **data):
    path = tmp_path / "aoe.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [("TE_PARALLEL_COMPILER", "33"), ("TUNING_PARALLEL_NUM", "0"), ("RUN_LOOP", "2049"), ("ASCEND_DEVICE_ID", "1"),
     ("AOE_MODE", "3"), ("REPEAT_TUNE", "maybe")],
)  # fmt: skip
def test_a_variable_outside_its_range_is_one_sentence_and_exit_code_2(name, value, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(name, value)
    assert main(["tune", str(tmp_path / "recording")]) == 2
    said = capsys.readouterr().err
    assert name in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cluster", "head:1"], "must be local or ray://HOST:PORT"),
        (["--report", __file__], "exists and is not replaced"),
    ],
)
def test_an_option_that_cannot_work_is_refused_before_the_run(options, said, capsys, tmp_path):
    assert main(["tune", str(tmp_path / "recording"), *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("1", [], "--job-type 1 tunes the graphs of a model"),
        ("1", ["--job-type", "2"], ""),
        ("2", [], ""),
        ("", [], ""),
        ("3", [], "AOE_MODE must be 1 (subgraphs), 2 (operators) or 4 (gradients)"),
        ("2", ["--job-type", "3"], "--job-type must be 1 (subgraphs), 2 (operators) or 4 (gradients)"),
    ],
)
def test_aoe_mode_chooses_the_job_where_the_command_line_does_not(mode, options, said, monkeypatch, capsys, tmp_path):
    write_recording(tmp_path / "recording", [[]])
    monkeypatch.setenv("AOE_MODE", mode)
    assert main(["tune", str(tmp_path / "recording"), *options]) == (2 if said else 0)
    assert said in capsys.readouterr().err


def test_a_configuration_of_the_other_job_is_refused(capsys, tmp_path):
    path = config(tmp_path, feature=["nonhomo_split"])
    assert main(["tune", str(tmp_path / "recording"), "--aoe-config-file", str(path)]) == 2
    assert "belongs to job type 1" in capsys.readouterr().err


def test_run_loop_and_the_level_change_how_long_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("RUN_LOOP", "20")
    monkeypatch.setenv("REPEAT_TUNE", "True")
    options = TuneOptions()
    setting = setting_of(2, config(tmp_path, tune_optimization_level="O1"), "cpu")
    found = setting.applied(options)
    assert found.repeat
    assert found.screening == replace(
        options.screening,
        min_calls=20,
        seconds=options.screening.seconds * 3,
        max_pairs=options.screening.max_pairs * 3,
    )
    assert setting.conditions.thorough


def test_deeper_opat_of_the_command_line_is_that_of_the_configuration_for_operators(tmp_path):
    by_file = setting_of(2, config(tmp_path, feature=["deeper_opat"]), "cpu").applied(TuneOptions())
    assert setting_of(2, None, "cpu", is_deep=True).applied(TuneOptions()) == by_file
    assert by_file.screening.seconds == 3 * TuneOptions().screening.seconds
    assert setting_of(1, None, "cpu", is_deep=True).applied(TuneOptions()) == TuneOptions()


def test_names_and_types_of_the_configuration_are_a_selection(tmp_path):
    setting = setting_of(2, config(tmp_path, tune_ops_type=["Conv2D"]), "cpu")
    assert (setting.selection().types, setting.selection().names) == ({"Conv2D"}, frozenset())
    assert setting_of(2, config(tmp_path, tune_optimization_level="O2"), "cpu").selection() is None
    assert setting_of(2, None, "cpu").selection() is None


def test_operators_that_two_files_name_are_refused_and_not_one_of_them_passed_over(capsys, tmp_path):
    own = tmp_path / "ops.json"
    own.write_text(json.dumps({"tune_ops_type": ["mm"]}))
    asked = ["tune", str(tmp_path / "recording"), "--tune-ops-file", str(own), "--aoe-config-file"]
    assert main([*asked, str(config(tmp_path, tune_ops_type=["Conv2D"]))]) == 2
    assert "both say which operators are tuned" in capsys.readouterr().err
    setting = setting_of(2, config(tmp_path, tune_optimization_level="O1"), "cpu")
    assert setting.selection(read_selection(own)).types == {"mm"}


def test_a_page_that_could_not_be_written_is_refused(tmp_path):
    check_report(None, "net.onnx")
    check_report(tmp_path / "page.html", "net.onnx")
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(OutputError, match="exists and is not replaced"):
        check_report(tmp_path / "page.html", "net.onnx")
    with pytest.raises(OutputError, match="must be a folder that can be written to"):
        check_report(tmp_path / "missing" / "page.html", "net.onnx")
