"""Options of TensorFlow scripts: read from the source, checked against the table, told by the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError, ScriptError
from jumar.base.findings import Finding, Severity
from jumar.cli.main import EXIT_USAGE, main
from jumar.tfadapter.checks import Given, check, check_settings
from jumar.tfadapter.checks.report import examine_options
from jumar.tfadapter.checks.rules.unknown_option import num_edits
from jumar.tfadapter.options import UNKNOWN, Setting, options_of
from jumar.tfadapter.options.memory import GB, MemoryOptions, memory_options
from jumar.tfadapter.source import ScriptOptions, read_shell, read_text

ROOT = Path(__file__).parents[2]
SESSION = """
import tensorflow as tf
from npu_bridge.npu_init import *
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
{lines}
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    print(sess.run(cost))
"""
"""The frame of document 002's example."""


def read(text: str) -> ScriptOptions:
    return read_text(text, Path("train.py"))


def findings(text: str, soc: str | None = None, *, paths: bool = False) -> list[Finding]:
    script = read(text)
    return check(Given(settings=script.settings, scripts=[script], soc=soc, paths=paths))


def codes(text: str, soc: str | None = None) -> list[str]:
    return [one.code for one in findings(text, soc)]


def settings_of(*lines: str) -> list[Setting]:
    """Return what lines set in a session."""
    return [one for one in read(session(*lines)).settings if one.name != "use_off_line"]


def session(*lines: str) -> str:
    return SESSION.format(lines="\n".join(lines))


def test_the_page_of_the_table_is_fresh() -> None:
    script = ROOT / "scripts" / "build_tensorflow_options.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, "run the script"


def test_each_option_of_the_table_names_its_source_and_keeps_its_own_rules() -> None:
    for style in ("session", "estimator", "dump_config", "profiling_config", "memory_config", "npu_device", "aoe"):
        for option in options_of(style).values():  # type: ignore[arg-type]
            assert option.source.startswith("https://") or option.source in {"000", "001", "002"}, option
            assert not option.default or not option.values or option.default in option.values, option
            assert all(value in option.values for _, values in option.values_by_chip for value in values), option
            assert style == "session" or option.kind in "sibfo"
            assert style != "session" or option.kind in "sibf", option


# --- the documents' own code


def test_the_code_of_the_overflow_document_is_right() -> None:
    text = session(
        'custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes("/home/HwHiAiUser/output")',
        'custom_op.parameter_map["enable_dump_debug"].b = True',
        'custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes("all")',
    )
    assert [(one.name, one.value, one.kind) for one in read(text).settings] == [
        ("use_off_line", True, "b"),
        ("dump_path", b"/home/HwHiAiUser/output", "s"),
        ("enable_dump_debug", True, "b"),
        ("dump_debug_mode", b"all", "s"),
    ]
    assert codes(text, "Ascend910B1") == []
    estimator = (
        "from npu_bridge.npu_init import *\n"
        'dump_config = DumpConfig(enable_dump_debug = True, dump_path = "/home/HwHiAiUser/output", '
        'dump_debug_mode = "all" )\n'
        "session_config=tf.ConfigProto()\n"
        "config = NPURunConfig(dump_config=dump_config, session_config=session_config)\n"
    )
    assert codes(estimator, "Ascend910A") == []
    assert len(read(estimator).settings) == 5


def test_the_code_of_the_memory_case_is_right() -> None:
    line = 'custom_op.parameter_map["graph_memory_max_size"].s = tf.compat.as_bytes(str(26*1024 * 1024 * 1024))'
    assert codes(session(line), "Ascend910A") == []
    assert settings_of(line)[0].value == b"27917287424"
    estimator = "config = NPURunConfig(graph_memory_max_size=str(26*1024 * 1024 * 1024))"
    assert codes(estimator, "Ascend910A") == []
    assert read(estimator).settings[0].value == "27917287424"


def test_the_settings_of_the_tuning_document_are_right(tmp_path: Path) -> None:
    assert codes(session('custom_op.parameter_map["static_memory_policy"].i = 0')) == []
    shell = tmp_path / "tune.sh"
    shell.write_text(
        "export LD_LIBRARY_PATH=/usr/local/python3.7.5/lib:$LD_LIBRARY_PATH\n# export AOE_MODE=9\nexport AOE_MODE=2\n"
        "export ASCEND_DEVICE_ID=0 export TUNE_BANK_PATH=/home/HwHiAiUser/custom_tune_bank\n"
        "export TE_PARALLEL_COMPILER=8\nexport REPEAT_TUNE=False\nBANK=$(pwd)\nexport ASCEND_WORK_PATH=$BANK\n"
    )
    found = {one.name: one.value for one in read_shell(shell).settings}
    assert found == {
        "AOE_MODE": "2", "ASCEND_DEVICE_ID": "0", "TE_PARALLEL_COMPILER": "8", "REPEAT_TUNE": "False",
        "TUNE_BANK_PATH": "/home/HwHiAiUser/custom_tune_bank", "ASCEND_WORK_PATH": UNKNOWN,
    }  # fmt: skip
    assert check_settings(read_shell(shell).settings, paths=False) == []


# --- what is wrong

WRONG = [
    ('custom_op.parameter_map["enable_dump_debgu"].b = True', "JM601", "did you mean enable_dump_debug?"),
    ('custom_op.parameter_map["Precision_Mode"].s = b"force_fp16"', "JM601", "did you mean precision_mode?"),
    ('custom_op.parameter_map["tf_random_seed"].i = 3', "JM601", "not known to Jumar's table, but to NPURunConfig"),
    ('custom_op.parameter_map["something_else"].i = 3', "JM601", "not known to Jumar's table."),
    ('custom_op.parameter_map["precision_mode"].i = 1', "JM602", "must be set by .s (bytes), not .i"),
    ('custom_op.parameter_map["graph_memory_max_size"].i = 5', "JM602", "must be set by .s"),
    ('custom_op.parameter_map["precision_mode"].s = "force_fp16"', "JM602", ".s takes bytes, not str"),
    ('custom_op.parameter_map["op_debug_level"].i = 9', "JM603", "must be 0, 1, 2, 3, 4"),
    ('custom_op.parameter_map["dump_debug_mode"].s = b"aicore"', "JM603", "must be all, aicore_overflow"),
    ('custom_op.parameter_map["graph_memory_max_size"].s = b"26GB"', "JM603", "must be a number"),
    ('custom_op.parameter_map["enable_dump_debug"].b = True', "JM608", "dump_path is not set"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG)
def test_what_is_wrong_is_named_with_its_line(line: str, code: str, words: str) -> None:
    (finding,) = findings(session(line))
    assert finding.code == code
    assert words in finding.message
    assert finding.where.line == 8
    assert finding.action


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_slip_of_any_name_is_an_error_that_names_the_right_one(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(options_of("session"))))
    at = data.draw(st.integers(0, len(name) - 2))
    slips = [
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        name.upper(),
        name.replace("_", ""),
    ]
    slip = data.draw(st.sampled_from([one for one in slips if one not in options_of("session")] or [f"{name}x"]))
    (finding,) = check(Given(settings=[Setting("session", slip, True, "b")]))
    assert (finding.code, finding.severity, finding.evidence["near"]) == ("JM601", Severity.ERROR, name)


def test_a_name_that_is_somewhat_near_may_be_one_of_another_version() -> None:
    (finding,) = check(Given(settings=[Setting("session", "op_debug_mode", 1, "i")]))
    assert (finding.severity, finding.evidence["near"]) == (Severity.WARNING, "dump_debug_mode")
    assert "not known to Jumar's table; a near name is dump_debug_mode" in finding.message


@pytest.mark.parametrize(("one", "other", "edits"), [("ab", "ba", 1), ("abc", "ac", 1), ("", "ab", 2), ("a", "a", 0)])
def test_edits_are_counted(one: str, other: str, edits: int) -> None:
    assert num_edits(one, other) == num_edits(other, one) == edits


@pytest.mark.parametrize(
    ("line", "near"),
    [('NPURunConfig(precision_mod="force_fp16")', "precision_mode"), ("DumpConfig(dump_paht='x')", "dump_path")],
)
def test_near_names_of_arguments_are_suggested(line: str, near: str) -> None:
    (finding,) = findings(line)
    assert finding.evidence["near"] == near


def test_dump_and_overflow_exclude_each_other_but_not_in_two_arms() -> None:
    together = 'DumpConfig(enable_dump=True, enable_dump_debug=True, dump_path="/x")'
    assert codes(together) == ["JM604"]
    assert codes('DumpConfig(enable_dump=True, enable_dump_debug=False, dump_path="/x")') == []
    arms = (
        'm = custom_op.parameter_map\nm["dump_path"].s = b"/x"\nif flags.dump:\n    m["enable_dump"].b = True\n'
        'else:\n    m["enable_dump_debug"].b = True'
    )
    assert codes(session(arms)) == []
    (finding,) = findings(session(arms.replace("else:", "if flags.other:")))
    assert (finding.code, finding.severity) == ("JM604", Severity.INFO), "each has a condition of its own"
    assert "where the conditions of both lines hold" in finding.message
    (finding,) = findings(session(arms.replace("else:", "if flags.other:").replace("if flags.dump:", "with graph:")))
    assert (finding.code, finding.severity) == ("JM604", Severity.ERROR)


def test_chips_take_what_the_documents_say() -> None:
    line = 'DumpConfig(enable_dump_debug=True, dump_path="/x", dump_debug_mode="atomic_overflow")'
    assert codes(line, "Ascend910B2") == ["JM605"]
    assert codes(line, "Ascend910A") == []
    assert codes(line, "Ascend910B") == [], "the old name of a first chip is no A2"
    assert codes(line) == [], "without a chip nothing is said of it"
    for soc, mode in (("Ascend910B3", "1"), ("Ascend910_9391", "4"), ("Ascend310P3", "4")):
        tuning = [Setting("environment", "AOE_MODE", mode)]
        assert [one.code for one in check_settings(tuning, soc=soc, paths=False)] == ["JM605"]


def test_the_first_chips_have_no_bfloat16() -> None:
    line = 'NPURunConfig(precision_mode="allow_mix_precision_bf16")'
    assert codes(line, "Ascend910A") == ["JM605"]
    assert codes(line, "Ascend910B1") == codes(line, "Ascend910_9391") == codes(line) == []


def test_mixed_computing_takes_one_step_a_call() -> None:
    line = "NPURunConfig(mix_compile_mode=True, iterations_per_loop={})"
    assert codes(line.format(1)) == []
    assert codes(line.format(10)) == ["JM604"]


def test_memory_is_that_of_the_chip() -> None:
    line = "NPURunConfig(graph_memory_max_size=str(30*1024**3), variable_memory_max_size=str(5*1024**3))"
    assert codes(line, "Ascend910A") == ["JM611"]
    assert codes(line, "Ascend910B1") == []


def test_what_disturbs_tuning_is_named_while_it_is_on() -> None:
    lines = (
        'custom_op.parameter_map["static_memory_policy"].i = 1',
        'custom_op.parameter_map["profiling_mode"].b = True',
    )
    assert codes(session(*lines)) == []
    tuning = 'custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")'
    assert codes(session(tuning, *lines)) == ["JM607", "JM607"]
    settings_ = settings_of(*lines)
    assert len(check_settings(settings_, environment={"AOE_MODE": "2"}, paths=False)) == 2


def test_tuning_and_training_must_agree(tmp_path: Path) -> None:
    tune, train = tmp_path / "tune.py", tmp_path / "train.py"
    line = 'custom_op.parameter_map["{}"].s = tf.compat.as_bytes("{}")'
    tune.write_text(session(line.format("precision_mode", "force_fp16"), line.format("input_shape", "x:1,2")))
    train.write_text(session(line.format("precision_mode", "allow_mix_precision"), line.format("input_shape", "x:1,2")))
    found = examine_options([tune], training=[train]).findings
    assert [(one.code, one.evidence["option"]) for one in found] == [("JM606", "precision_mode")]
    train.write_text(session(line.format("input_shape", "x:1,2")))
    (finding,) = examine_options([tune], training=[train]).findings
    assert "not set in training" in finding.message
    train.write_text(tune.read_text())
    assert examine_options([tune], training=[train]).findings == []


def test_paths_are_looked_for_on_this_machine(tmp_path: Path) -> None:
    line = f'custom_op.parameter_map["work_path"].s = tf.compat.as_bytes("{tmp_path}/tune")'
    assert [one.code for one in findings(session(line), paths=True)] == ["JM608"]
    (tmp_path / "tune").mkdir()
    assert findings(session(line), paths=True) == []


def test_a_session_that_is_not_for_the_npu_is_named() -> None:
    text = session()
    assert codes(text.replace('"NpuOptimizer"', '"NPUOptimizer"')) == ["JM609"]
    assert codes(text.replace('custom_op.name = "NpuOptimizer"\n', "")) == ["JM609"]
    assert codes(text.replace("config.graph_options.rewrite_options.remapping = RewriterConfig.OFF\n", "")) == ["JM609"]
    completed = "sess = tf.Session(config=npu_config_proto(config_proto=config))\n"
    assert codes(text.replace("config.graph_options.rewrite_options.remapping = RewriterConfig.OFF\n", completed)) == []


def test_an_option_that_is_set_twice_is_named() -> None:
    line = 'custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("{}")'
    assert codes(session(line.format(1), line.format(2))) == ["JM610"]
    assert codes(session(line.format(1), line.format(1))) == []


@pytest.mark.parametrize(("mode", "found"), [("1", ["JM610"]), ("2", [])])
def test_another_tuning_mode_in_the_environment_is_named(mode: str, found: list[str]) -> None:
    settings_ = settings_of('custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("2")')
    made = check_settings(settings_, environment={"AOE_MODE": mode}, paths=False)
    assert [one.code for one in made] == found
    assert all("AOE_MODE=1" in one.message for one in made)


# --- how scripts write them

FORMS = {
    "alias of the map": 'm = custom_op.parameter_map\nm["precision_mode"].s = tf.compat.as_bytes("force_fp16")',
    "alias of the option": 'p = custom_op.parameter_map["precision_mode"]\np.s = b"force_fp16"',
    "constant": 'MODE = "force_fp16"\ncustom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(MODE)',
    "name in a constant": 'KEY = "precision_mode"\ncustom_op.parameter_map[KEY].s = "force_fp16".encode()',
    "loop": 'for k, v in {"precision_mode": "force_fp16"}.items():\n    custom_op.parameter_map[k].s = v.encode()',
    "list": 'for k, v in [("precision_mode", b"force_fp16")]:\n    custom_op.parameter_map[k].s = v',
    "function": 'def put(op, k, v):\n    op.parameter_map[k].s = v\nput(custom_op, "precision_mode", b"force_fp16")',
    "keyword": 'def put(op, k, v):\n    op.parameter_map[k].s = v\nput(custom_op, v=b"force_fp16", k="precision_mode")',
    "setattr": 'setattr(custom_op.parameter_map["precision_mode"], "s", b"force_fp16")',
    "CopyFrom": 'custom_op.parameter_map["precision_mode"].CopyFrom(AttrValue(s=b"force_fp16"))',
    "f-string": 'kind = "fp16"\ncustom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(f"force_{kind}")',
    "bytes()": 'custom_op.parameter_map["precision_mode"].s = bytes("force_fp16", "utf-8")',
    "in a function": 'def main():\n    custom_op.parameter_map["precision_mode"].s = b"force_fp16"\nmain()',
    "in a method": 'class A:\n    def go(self):\n        custom_op.parameter_map["precision_mode"].s = b"force_fp16"',
    "with": 'with tf.Graph().as_default():\n    custom_op.parameter_map["precision_mode"].s = b"force_fp16"',
    "try": 'try:\n    custom_op.parameter_map["precision_mode"].s = b"force_fp16"\nexcept Exception:\n    pass',
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_in_which_a_script_writes_it_does_not_matter(form: str) -> None:
    (setting,) = settings_of(*FORMS[form].splitlines())
    assert (setting.style, setting.name, setting.value, setting.kind) == (
        "session",
        "precision_mode",
        b"force_fp16",
        "s",
    )


OTHERS = {
    'npu.global_options().precision_mode = "force_fp16"': ("npu_device", "precision_mode", "force_fp16"),
    'o = npu.global_options()\no.aoe_config.work_path = "/x"': ("npu_device", "aoe_config.work_path", "/x"),
    'a = npu.global_options().aoe_config\na.aoe_mode = "2"': ("npu_device", "aoe_config.aoe_mode", "2"),
    'os.environ["AOE_MODE"] = "2"': ("environment", "AOE_MODE", "2"),
    'os.environ.update({"AOE_MODE": "2", "HOME": "/"})': ("environment", "AOE_MODE", "2"),
    'os.environ.setdefault("AOE_MODE", "2")': ("environment", "AOE_MODE", "2"),
    'os.putenv("AOE_MODE", "2")': ("environment", "AOE_MODE", "2"),
    "DumpConfig(True)": ("dump_config", "enable_dump", True),
    "MemoryConfig(static_memory_policy=2)": ("memory_config", "static_memory_policy", 2),
    'words = {"hcom_parallel": True}\nNPURunConfig(**words)': ("estimator", "hcom_parallel", True),
    "NPURunConfig(**dict(hcom_parallel=True))": ("estimator", "hcom_parallel", True),
    "functools.partial(NPURunConfig, hcom_parallel=True)": ("estimator", "hcom_parallel", True),
    "npu_config.NPURunConfig(hcom_parallel=not False)": ("estimator", "hcom_parallel", True),
}


@pytest.mark.parametrize("text", OTHERS)
def test_other_styles_are_read(text: str) -> None:
    (setting,) = read(text).settings
    assert (setting.style, setting.name, setting.value) == OTHERS[text]


def test_what_the_source_does_not_tell_is_counted_and_not_judged(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        session(
            'custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(FLAGS.mode)',
            'custom_op.parameter_map[FLAGS.name].s = b"x"',
            "NPURunConfig(**FLAGS.more)",
        )
    )
    report = examine_options([script])
    assert report.findings == []
    assert [one.name for one in report.untold] == ["precision_mode"]
    assert [line for _, line, _ in report.unread] == [9, 10]


def test_a_name_with_two_values_is_not_told() -> None:
    text = 'MODE = "force_fp16"\nif x:\n    MODE = "nonsense"\nNPURunConfig(precision_mode=MODE)'
    assert read(text).settings[0].value is UNKNOWN


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_value_comes_back_from_a_script_that_sets_it(data: st.DataObject) -> None:
    option = data.draw(st.sampled_from(list(options_of("session").values())))
    text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
    value = data.draw({"s": text.map(str.encode), "i": st.integers(-(2**60), 2**60), "b": st.booleans()}[option.kind])
    (setting,) = read(f"custom_op.parameter_map[{option.name!r}].{option.kind} = {value!r}").settings
    assert (setting.name, setting.value, setting.kind) == (option.name, value, option.kind)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80) | st.sampled_from(["x" * 9]).map(lambda _: session(*FORMS["function"].splitlines())[:200]))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        check(Given(settings=read(text).settings, paths=False))
    except ScriptError as error:
        sentence = str(error)
    else:
        sentence = ""
    assert "Traceback" not in sentence


# --- memory options


@pytest.mark.parametrize(("word", "is_variable"), [("var", True), ("graph", False)])
def test_memory_options_are_computed_as_the_document_says(word: str, is_variable: bool) -> None:
    line = f"Out of memory: current {word} size[13962468864] exceeds total {word} size[13958643712]"
    found = memory_options(line)
    assert isinstance(found, MemoryOptions)
    needed, left = 13962468864 + GB, 31 * GB - (13962468864 + GB)
    assert (found.variable, found.graph) == ((needed, left) if is_variable else (left, needed))
    assert codes(session(*found.session_code.splitlines()), "Ascend910A") == []
    assert codes(found.estimator_code, "Ascend910A") == []
    set_there = {one.name: int(one.value) for one in read(found.estimator_code).settings}  # type: ignore[arg-type]
    assert set_there == {"graph_memory_max_size": found.graph, "variable_memory_max_size": found.variable}


def test_memory_that_cannot_be_had_is_said() -> None:
    assert "does not fit" in str(memory_options("current var size[33285996544] exceeds total var size[5368709120]"))
    assert memory_options("current var size[1] exceeds total graph size[2]") is None


# --- the commands


def test_the_doctor_prints_the_options_for_both_styles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "[ERROR] GE(685297,python3):2022-04-06-07:15:09.383.996 [graph_var_manager.cc:402]687614 AssignVarMem: "
        "ErrorNo: 1343225857(Parameter's invalid!) [COMP][MEM_ALLOC][Check][Param] Out of memory: current graph "
        "size[13962468864] exceeds total graph size[13958643712]\n"
    )
    assert main(["doctor", str(log), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["evidence"]["graph_memory_max_size"] == 13962468864 + GB
    assert 'custom_op.parameter_map["graph_memory_max_size"].s' in document["findings"][0]["action"]
    assert "NPURunConfig(graph_memory_max_size=" in document["findings"][0]["action"]


def test_assess_and_doctor_options_say_what_they_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(session(*(line for line, *_ in WRONG[:1])))
    for words in (["assess", str(script)], ["assess", str(tmp_path)], ["doctor", "options", str(script)]):
        assert main(words) == 1
        output = capsys.readouterr().out
        assert "did you mean enable_dump_debug?" in output
        assert "Read 1 file without running them: 2 options, 1 of them in the table" in output
    assert main(["doctor", "options", str(script), "--json", "--soc", "Ascend910B1"]) == 1
    assert json.loads(capsys.readouterr().out)["num_options"] == 2
    script.write_text("import tensorflow as tf\n")
    assert main(["assess", str(script)]) == 0
    output = capsys.readouterr().out
    assert "No option for the NPU is set in 1 file" in output
    assert "Fine" not in output


def test_what_cannot_be_read_is_refused_or_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.py").write_text("import tensorflow\nprint 3\n")
    (tmp_path / "new.py").write_text(session())
    with pytest.raises(ScriptError, match=r"old\.py, line 2: the file must be valid Python 3"):
        examine_options([tmp_path / "old.py"])
    assert "old.py" in examine_options([tmp_path]).unparsed[0]
    with pytest.raises(InputError, match="there is none"):
        examine_options([tmp_path / "missing.py"])
    assert main(["doctor", "options"]) == EXIT_USAGE
    assert main(["doctor", "--soc", "Ascend910A"]) == EXIT_USAGE
    assert "jumar doctor options" in capsys.readouterr().err
