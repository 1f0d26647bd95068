"""The documented variables: ranges, defaults, order of precedence; aoe.ini and aoe_config_file."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.tune.measure.conditions.settings import Lanes, TuneEnvironment, aoe_mode, parse_ini, read_aoe_config


def read(environ=None, **options) -> TuneEnvironment:
    return TuneEnvironment.read(environ or {}, **options)


def test_the_defaults_are_the_documented_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = read()
    assert (found.compilers, found.tuners, found.run_loop, found.device_id, found.aoe_mode) == (8, 8, None, 0, None)
    assert (found.compilers_given, found.tuners_given, found.repeat, found.work_path) == (False, False, False, tmp_path)


@pytest.mark.parametrize(
    ("name", "field", "low", "high"),
    [
        ("TE_PARALLEL_COMPILER", "compilers", 1, 32),
        ("TUNING_PARALLEL_NUM", "tuners", 1, 64),
        ("RUN_LOOP", "run_loop", 1, 2048),
        ("ASCEND_DEVICE_ID", "device_id", 0, 3),
    ],
)
def test_a_number_is_taken_within_its_range_and_refused_outside_in_one_sentence(name, field, low, high):
    for value in (low, high):
        assert getattr(read({name: str(value)}, num_devices=4), field) == value
    for text in (str(low - 1), str(high + 1), "two", "1.5", "²"):
        with pytest.raises(UsageError, match=f'^{name} must be a whole number from {low} to {high}; got "{text}"'):
            read({name: text}, num_devices=4)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="ASCEND_DEVICE_ID must be 0, the only one here; got"):
        read({"ASCEND_DEVICE_ID": "1"})


@pytest.mark.parametrize(("text", "mode"), [("1", 1), ("2", 2), ("4", 4), ("", None), (" 2 ", 2)])
def test_aoe_mode_is_1_2_or_4(text, mode):
    assert aoe_mode({"AOE_MODE": text}) == mode


@pytest.mark.parametrize(("text", "said"), [("3", "1 .subgraphs., 2 .operators. or 4"), ("x", "got .x.")])
def test_another_aoe_mode_is_one_sentence(text, said):
    with pytest.raises(UsageError, match=said):
        aoe_mode({"AOE_MODE": text})


def test_the_environment_goes_before_aoe_ini_and_aoe_ini_before_the_default(tmp_path):
    ini = tmp_path / "aoe.ini"
    ini.write_text(f"[global]\n# as delivered\nTUNING_PARALLEL_NUM = 3\nrun_loop=20 ; averaged\nWORK_PATH={tmp_path}\n")
    found = read({"JUMAR_AOE_INI": str(ini), "RUN_LOOP": "7"})
    assert (found.tuners, found.tuners_given, found.run_loop, found.work_path) == (3, True, 7, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert read({"JUMAR_AOE_INI": str(ini), "ASCEND_WORK_PATH": str(other)}).work_path == other


def test_a_value_of_aoe_ini_outside_its_range_names_the_file(tmp_path):
    ini = tmp_path / "tools" / "aoe" / "conf" / "aoe.ini"
    ini.parent.mkdir(parents=True)
    ini.write_text("TUNING_PARALLEL_NUM = 65\n")
    with pytest.raises(UsageError, match=r"TUNING_PARALLEL_NUM in .*aoe\.ini must be .* from 1 to 64; got \"65\""):
        read({"ASCEND_HOME_PATH": str(tmp_path)})


def test_a_toolkit_without_aoe_is_no_error_and_a_named_file_that_is_missing_is_one(tmp_path):
    assert read({"ASCEND_HOME_PATH": str(tmp_path)}).tuners == 8
    with pytest.raises(InputError, match=r"JUMAR_AOE_INI names .* cannot be read"):
        read({"JUMAR_AOE_INI": str(tmp_path / "aoe.ini")})
    with pytest.raises(InputError, match="JUMAR_AOE_INI must begin with a home folder that is known"):
        read({"JUMAR_AOE_INI": "~nobody-of-this-name/aoe.ini"})


def test_a_work_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(OutputError, match="ASCEND_WORK_PATH must be an existing folder"):
        read({"ASCEND_WORK_PATH": str(tmp_path / "missing")})


@given(st.text())
@settings(derandomize=True, max_examples=100)
def test_any_text_is_an_ini_without_unknown_names(text):
    assert set(parse_ini(text)) <= {"TUNING_PARALLEL_NUM", "TE_PARALLEL_COMPILER", "RUN_LOOP", "WORK_PATH"}


@given(st.integers(1, 32), st.integers(1, 64), st.integers(1, 256), st.integers(1, 8), st.integers(0, 1 << 40))
@settings(derandomize=True, max_examples=100)
def test_lanes_are_the_smallest_bound_and_at_least_one(compilers, tuners, cores, devices, memory):
    environment = TuneEnvironment(compilers=compilers, tuners=tuners, work_path=None)
    lanes = Lanes.of(environment, memory_bytes=memory, candidate_bytes=1 << 30, num_cores=cores, num_devices=devices)
    bounds = [compilers, tuners, int(cores * 0.8 / devices), memory >> 30]
    assert lanes.count == max(1, min(bounds))


def test_the_bound_of_the_lanes_is_said_with_its_numbers():
    lanes = Lanes.of(TuneEnvironment(work_path=None), memory_bytes=None, candidate_bytes=1, num_cores=2)
    assert (lanes.count, lanes.bound) == (1, "cores × 0.8 / devices = 2 × 0.8 / 1")


def config(tmp_path, data, job_type=2):
    path = tmp_path / "config.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_aoe_config(path, job_type)


def test_a_configuration_is_read_whole(tmp_path):
    found = config(
        tmp_path,
        {
            "tune_ops_name": ["a"],
            "tune_ops_type": ["Conv2D"],
            "tune_optimization_level": "O1",
            "feature": ["deeper_opat"],
        },
    )
    assert (found.names, found.types, found.level, found.features) == (("a",), ("Conv2D",), "O1", {"deeper_opat"})
    assert found.thorough
    assert not config(tmp_path, {"feature": ["nonhomo_split"]}, job_type=1).thorough


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "must hold JSON"),
        ([], "must hold an object"),
        ({"tune_op_name": []}, "it also has tune_op_name"),
        ({"tune_ops_name": "conv"}, "tune_ops_name must be a list of words"),
        ({"tune_optimization_level": "O3"}, "must be O1 or O2; got .O3."),
        ({"feature": ["faster"]}, "feature must be of deeper_opat, nonhomo_split; got faster"),
        ({"feature": ["nonhomo_split"]}, "belongs to job type 1, and this is a job of type 2"),
    ],
)
def test_a_configuration_that_breaks_its_form_is_one_sentence(tmp_path, data, said):
    with pytest.raises(InputError, match=said):
        config(tmp_path, data)


def test_names_of_operators_in_a_configuration_for_graphs_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="tune_ops_type belong to job type 2, and this is a job of type 1"):
        config(tmp_path, {"tune_ops_type": ["Conv2D"]}, job_type=1)
    config(tmp_path, {"tune_ops_name": [], "tune_ops_type": []}, job_type=1)


def test_reading_leaves_the_environment_alone():
    before = dict(os.environ)
    read({"TE_PARALLEL_COMPILER": "2"})
    assert dict(os.environ) == before


def test_run_loop_is_the_least_number_of_calls_in_a_sample():
    from jumar.tune.measure.worker.messages import Effort
    from jumar.tune.measure.worker.pairs import measure_pairs

    effort = Effort(seconds=0.001, min_pairs=3, max_pairs=3, sample_us=0.001, min_calls=7, max_wait_share=1e9)
    pairs = measure_pairs(tuple, list, effort, min_gain=0.0, seed=0)
    assert pairs.calls_per_sample == 7
