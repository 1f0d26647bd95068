"""Options of several files: folders, tuning beside training, shell scripts, chips."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.findings import Finding, Severity
from jumar.cli.main import main
from jumar.tfadapter.checks.report import examine_options

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
"""


def session(*lines: str) -> str:
    return SESSION.format(lines="\n".join(lines))


def option(name: str, value: str) -> str:
    return f'custom_op.parameter_map["{name}"].s = tf.compat.as_bytes("{value}")'


def found_in(*paths: Path, training: Path | None = None, soc: str | None = None) -> list[Finding]:
    later = [training] if training else []
    return list(examine_options(paths, training=later, soc=soc, look_for_paths=False).findings)


def codes(*paths: Path, training: Path | None = None, soc: str | None = None) -> list[str]:
    return [one.code for one in found_in(*paths, training=training, soc=soc)]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_files_of_a_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    write(tmp_path / "a.py", session(option("precision_mode", "force_fp16")))
    write(tmp_path / "b.py", session(option("precision_mode", "allow_mix_precision")))
    write(tmp_path / "c.py", session('custom_op.parameter_map["profiling_mode"].b = True'))
    write(tmp_path / "d.py", session(option("aoe_mode", "2")))
    write(tmp_path / "e.py", "npu.global_options().dump_config.enable_dump = True\n")
    write(tmp_path / "f.py", 'npu.global_options().dump_config.dump_path = "/x"\n')
    assert codes(tmp_path) == []


def test_a_shell_script_tunes_the_programs_that_it_starts(tmp_path: Path) -> None:
    write(tmp_path / "profiled.py", session('custom_op.parameter_map["profiling_mode"].b = True'))
    write(tmp_path / "run.sh", "export AOE_MODE=2\npython3 other.py\n")
    assert codes(tmp_path) == []
    write(tmp_path / "run.sh", "export AOE_MODE=2\npython3 profiled.py\n")
    assert codes(tmp_path) == ["JM607"]


def test_what_has_a_condition_of_its_own_is_for_information(tmp_path: Path) -> None:
    lines = ("if FLAGS.tune:", f"    {option('aoe_mode', '2')}", "if FLAGS.profile:",
             '    custom_op.parameter_map["profiling_mode"].b = True')  # fmt: skip
    (finding,) = found_in(write(tmp_path / "a.py", session(*lines)))
    assert (finding.code, finding.severity) == ("JM607", Severity.INFO)
    assert "if both conditions hold" in finding.message


def test_a_run_of_aoe_and_a_script_are_compared(tmp_path: Path) -> None:
    aoe = write(
        tmp_path / "tune.sh", "aoe --job_type=2 --precision_mode=force_fp16 --insert_op_conf=a.cfg --out_nodes=$X\n"
    )
    train = write(tmp_path / "train.py", session(option("precision_mode", "force_fp32"), option("insert_op_file", "b")))
    found = found_in(aoe, training=train)
    assert [(one.evidence["option"], one.severity) for one in found] == [
        ("precision_mode", Severity.ERROR), ("insert_op_conf", Severity.WARNING)
    ]  # fmt: skip
    write(train, session(option("precision_mode", "force_fp16")))
    (finding,) = found_in(aoe, training=train)
    assert (finding.evidence["option"], finding.severity) == ("insert_op_conf", Severity.WARNING)
    assert codes(write(tmp_path / "tune.sh", "aoe --job_type=1\n"), soc="Ascend910B1") == ["JM605"]


def test_what_is_not_certain_is_not_compared(tmp_path: Path) -> None:
    tune = write(tmp_path / "tune.py", session(option("precision_mode", "force_fp16")))
    train = tmp_path / "train.py"
    for line in (
        'custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(FLAGS.mode)',
        "custom_op.parameter_map[FLAGS.name].s = b'x'",
        f"if x:\n    {option('precision_mode', 'force_fp32')}\nelse:\n    {option('precision_mode', 'force_fp16')}",
    ):
        assert codes(tune, training=write(train, session(line))) == [], line
    conditional = write(tmp_path / "tune.py", session(f"if x:\n    {option('precision_mode', 'force_fp16')}"))
    assert codes(conditional, training=write(train, session())) == []


def test_sessions_say_where_their_graph_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.py", session().replace(".b = True", ".b = False"))
    (finding,) = found_in(path)
    assert (finding.code, finding.severity) == ("JM612", Severity.WARNING)
    write(path, session().replace('custom_op.parameter_map["use_off_line"].b = True\n', ""))
    (finding,) = found_in(path)
    assert (finding.code, finding.severity) == ("JM612", Severity.INFO)


def test_rewrites_of_tensorflow_are_looked_at(tmp_path: Path) -> None:
    text = session().replace("memory_optimization", "function_optimization")
    found = found_in(
        write(tmp_path / "a.py", text + "config.graph_options.rewrite_options.disable_model_pruning = True\n")
    )
    assert [(one.code, one.severity) for one in found] == [
        ("JM609", Severity.WARNING), ("JM609", Severity.WARNING), ("JM609", Severity.ADVICE)
    ]  # fmt: skip


def test_a_folder_that_is_written_must_let_the_user_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.py", session(option("dump_path", str(tmp_path))))
    assert examine_options([path]).findings == []
    monkeypatch.setattr("os.access", lambda _, mode: mode != 2)  # tests run as root, too
    (finding,) = examine_options([path]).findings
    assert "cannot be written by this user" in finding.message


def test_the_page_tells_the_expression_that_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes(FLAGS.dump)'
    path = write(tmp_path / "a.py", session(text, option("precision_mod", "x"), option("dump_pat", "y")))
    assert main(["doctor", "options", str(path)]) == 1
    output = capsys.readouterr().out
    assert "value of dump_path: tf.compat.as_bytes(FLAGS.dump)" in output
    assert "Write precision_mode." in output
    assert "Write dump_path." in output
    write(tmp_path / "ops.json", '{"tune_ops_name": []}')
    write(path, session(option("aoe_config_file", str(tmp_path / "ops.json"))))
    assert main(["doctor", "options", str(path)]) == 0
    assert "ops.json:None" not in capsys.readouterr().out


def test_a_file_of_operators_that_is_no_json_is_told(tmp_path: Path) -> None:
    write(tmp_path / "ops.json", "{")
    path = write(tmp_path / "a.py", session(option("aoe_config_file", str(tmp_path / "ops.json"))))
    assert "must be JSON" in examine_options([path]).unparsed[0]
