"""Options that must agree (document 000, case 02): each that differs, what it changes, the corrected command."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.findings import Severity
from jumar.tfadapter.checks.report import examine_options
from jumar.tfadapter.options import agree, must_agree, names_that_change

DOCUMENT = {
    "input_format": "format", "input_shape": "shape", "output_type": "dtype", "insert_op_conf": "structure",
    "fusion_switch_file": "structure", "enable_scope_fusion_passes": "structure", "enable_small_channel": "structure",
    "out_nodes": "output nodes", "input_fp16_nodes": "dtype", "is_input_adjust_hw_layout": "dtype and format",
    "is_output_adjust_hw_layout": "dtype and format", "precision_mode": "dtype", "op_precision_mode": "dtype",
    "modify_mixlist": "dtype", "keep_dtype": "dtype", "op_select_implmode": "dtype", "optypelist_for_implmode": "dtype",
    "dynamic_batch_size": "shape", "dynamic_image_size": "shape", "dynamic_dims": "shape",
}  # fmt: skip
"""The list of the document, and what it says each changes."""
OTHER = {
    "enable_small_channel": "1", "op_select_implmode": "high_precision", "precision_mode": "must_keep_origin_dtype",
    "is_input_adjust_hw_layout": "true", "is_output_adjust_hw_layout": "true",
}  # fmt: skip
"""A value that is not the default, where any word would not do."""


def compared(tuning: str, use: str):
    return examine_options([tuning], training=[use], look_for_paths=False)


def found_in(tuning: str, use: str) -> list[str]:
    return [one.evidence["option"] for one in compared(tuning, use).findings if one.code == "JM606"]


def test_the_list_is_the_documents():
    assert {name: option.changes for name, option in must_agree().items()}.keys() == DOCUMENT.keys()
    assert all(word in must_agree()[name].changes for name, word in DOCUMENT.items())
    assert "input_shape" in names_that_change("shape")
    assert "out_nodes" in names_that_change("structure")


@pytest.mark.parametrize("name", DOCUMENT)
def test_each_option_that_differs_is_told_with_what_it_changes(name):
    report = compared(f"aoe --job_type=2 --{name}={OTHER.get(name, 'a:1')}", f"atc --{name}=b:2 --output=o")
    (finding,) = [one for one in report.findings if one.code == "JM606"]
    assert finding.evidence["option"] == name
    assert DOCUMENT[name] in finding.evidence["changes"]
    assert DOCUMENT[name] in finding.why
    if must_agree()[name].form == "path":  # two files that are not here
        assert (finding.severity, finding.confidence) == (Severity.WARNING, "possible")
        assert report.agreement.corrected == []
    else:
        assert finding.severity == Severity.ERROR
        assert report.agreement.corrected == [f"atc --{name}={OTHER.get(name, 'a:1')} --output=o"]


@pytest.mark.parametrize("name", DOCUMENT)
def test_an_option_that_one_side_lacks_is_a_warning(name):
    value = OTHER.get(name, "a:1")
    report = compared(f"aoe --job_type=2 --{name}={value}", "atc --output=o")
    (finding,) = [one for one in report.findings if one.code == "JM606"]
    assert (finding.evidence["option"], finding.severity) == (name, Severity.WARNING)
    assert report.agreement.corrected == [f"atc --output=o --{name}={value}"]
    back = compared("aoe --job_type=2", f"atc --output=o --{name}={value}")
    assert back.agreement.corrected == ["atc --output=o"]


@pytest.mark.parametrize(
    ("tuning", "use"),
    [
        ("aoe --precision_mode=force_fp16 --job_type=2", "atc --output=a"),
        ("aoe --op_select_implmode=high_performance", "atc --enable_small_channel=0"),
        ("aoe --is_input_adjust_hw_layout=false", "atc"),
        ("aoe --framework=5 --input_format=NCHW", "atc --framework=5"),
        ("aoe --framework=3 --input_format=NHWC", "atc --framework=3"),
        ("aoe --input_format=nchw", "atc --input_format=NCHW"),
        ("aoe --input_format=NCHW", "atc --model=a"),
        ("aoe --input_shape='x:1,3;y:2'", "atc --input_shape 'y: 2; x: 1,3;'"),
        ("aoe --dynamic_batch_size=1,2,4", "atc --dynamic_batch_size=4,1,2"),
        ("aoe --dynamic_dims='1,2;3,4'", "atc --dynamic_dims='3,4;1,2'"),
        ("aoe --output_type='a:0:FP16;b:0:FP32'", "atc --output_type='B:0:fp32;A:0:fp16'"),
        ("aoe --input_fp16_nodes='a;b'", "atc --input_fp16_nodes='b;a'"),
        ("aoe --precision_mode=allow_mix_precision", "atc --precision_mode=allow_mix_precision_fp16"),
        ("aoe --insert_op_conf=./a/../b.cfg", "atc --insert_op_conf=b.cfg"),
        ("aoe --out_nodes=$NODES", "atc --out_nodes='a:0'"),
        ("aoe --soc_version=Ascend310 --log=info", "atc --soc_version=Ascend310P3"),
        (
            "aoe --precision_mode=a --precision_mode=must_keep_origin_dtype",
            "atc --precision_mode=must_keep_origin_dtype",
        ),
    ],
)
def test_what_is_written_otherwise_and_means_the_same_is_no_difference(tuning, use):
    assert found_in(tuning, use) == []
    assert found_in(use, tuning) == []


@pytest.mark.parametrize(
    ("tuning", "use", "name"),
    [
        ("aoe --framework=3 --input_format=NCHW", "atc --framework=3", "input_format"),
        ("aoe --out_nodes='a:0;b:0'", "atc --out_nodes='b:0;a:0'", "out_nodes"),
        ("aoe --out_nodes='a:0'", "atc --out_nodes='A:0'", "out_nodes"),
        ("aoe --input_shape='x:1,3'", "atc --input_shape='y:1,3'", "input_shape"),
        ("aoe --precision_mode=force_fp16", "atc --precision_mode=force_fp32", "precision_mode"),
        ("aoe --is_input_adjust_hw_layout=true,false", "atc --is_input_adjust_hw_layout=false,true",
         "is_input_adjust_hw_layout"),
    ],
)  # fmt: skip
def test_what_looks_alike_and_is_another_is_a_difference(tuning, use, name):
    assert found_in(tuning, use) == [name]


@given(st.sampled_from(sorted(DOCUMENT)), st.text(max_size=30))
def test_a_value_agrees_with_itself(name, text):
    assert agree(name, text, text)
    assert agree(name, text, f" {text} ")


@given(st.sampled_from(sorted(DOCUMENT)), st.text(max_size=12), st.text(max_size=12))
def test_agreement_has_no_direction(name, one, other):
    assert agree(name, one, other) == agree(name, other, one)


@given(st.permutations(sorted(DOCUMENT)), st.data())
def test_equal_configurations_in_any_order_agree(order, data):
    values = {name: OTHER.get(name, "a:1") for name in DOCUMENT}
    some = data.draw(st.lists(st.sampled_from(order), unique=True))
    first = " ".join(f"--{name}={values[name]}" for name in sorted(some))
    second = " ".join(f"--{name} {values[name]}" for name in some)
    report = compared(f"aoe --job_type=2 {first}", f"atc {second} --output=x")
    assert [one for one in report.findings if one.code == "JM606"] == []
    assert (list(report.agreement.corrected), set(report.agreement.compared)) == ([], set(some))


def test_files_are_compared_by_what_is_in_them(tmp_path: Path):
    for name, text in (("a.cfg", "1"), ("b.cfg", "1"), ("c.cfg", "2")):
        (tmp_path / name).write_text(text)
    use = f"atc --modify_mixlist={tmp_path / 'a.cfg'}"
    assert found_in(f"aoe --modify_mixlist={tmp_path / 'b.cfg'}", use) == []
    (finding,) = compared(f"aoe --modify_mixlist={tmp_path / 'c.cfg'}", use).findings
    assert (finding.severity, finding.confidence) == (Severity.ERROR, "certain")


def test_a_newer_name_of_the_precision_is_the_same_option():
    report = compared("aoe --precision_mode=must_keep_origin_dtype", "atc --precision_mode_v2=fp16 --output=a")
    assert found_in("aoe --precision_mode=must_keep_origin_dtype", "atc --precision_mode_v2=origin") == []
    assert report.agreement.corrected == ["atc --output=a --precision_mode=must_keep_origin_dtype"]


def test_a_command_is_compared_with_a_script_and_the_command_is_corrected(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(
        "import tensorflow as tf\nfrom npu_bridge.npu_init import *\nconfig = tf.ConfigProto()\n"
        "op = config.graph_options.rewrite_options.custom_optimizers.add()\nop.name = 'NpuOptimizer'\n"
        "op.parameter_map['precision_mode'].s = tf.compat.as_bytes('allow_mix_precision')\n"
    )
    report = examine_options(["aoe --job_type=1 --precision_mode=force_fp16"], training=[script], look_for_paths=False)
    assert [one.name for one in report.agreement.apart] == ["precision_mode"]
    assert (report.agreement.is_use, list(report.agreement.corrected)) == (
        False, ["aoe --job_type=1 --precision_mode=allow_mix_precision"],
    )  # fmt: skip
