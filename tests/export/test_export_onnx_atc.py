"""What ATC takes: taken, not taken and not known are told apart, in inner graphs, too."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from jumar.export.onnx.atc import judge, table
from jumar.export.onnx.options import OnnxOptions
from jumar.export.onnx.report import findings

onnx = pytest.importorskip("onnx")
helper = onnx.helper


def model(*kinds: str, opset: int = 11, domain: str = "", inner: str | None = None):
    nodes = [helper.make_node(kind, ["x"], [f"y{index}"], domain=domain) for index, kind in enumerate(kinds)]
    if inner is not None:
        branch = helper.make_graph([helper.make_node(inner, ["x"], ["z"])], "branch", [], [])
        nodes.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    sets = (
        [helper.make_opsetid("", opset), helper.make_opsetid(domain, 1)] if domain else [helper.make_opsetid("", opset)]
    )
    return helper.make_model(helper.make_graph(nodes, "g", [], []), opset_imports=sets)


@pytest.mark.parametrize(
    ("opset", "kind", "verdict"),
    [
        (11, "Relu", "taken"), (18, "Relu", "taken"), (19, "Relu", "not taken"), (8, "Relu", "taken"),
        (7, "Relu", "not taken"), (17, "LayerNormalization", "taken"), (16, "LayerNormalization", "not taken"),
        (18, "ReduceL2", "not taken"), (17, "ReduceL2", "taken"), (20, "Gelu", "unknown"), (11, "RNN", "unknown"),
        (11, "Loop", "unknown"), (22, "Constant", "taken"), (12, "GreaterOrEqual", "taken"),
        (11, "GreaterOrEqual", "not taken"), (11, "NoSuchOperator", "unknown"), (16, "GridSample", "taken"),
    ],
)  # fmt: skip
def test_an_operator_is_judged_by_the_operator_set_of_the_file(opset, kind, verdict):
    found = judge(model(kind, opset=opset))
    where = {"taken": found.taken, "not taken": found.not_taken, "unknown": found.unknown}
    assert [name for name, kinds in where.items() if kind in kinds] == [verdict]
    assert (found.opset, found.num_nodes) == (opset, 1)


def test_operators_of_inner_graphs_count():
    found = judge(model("Relu", inner="Loop"))
    assert (dict(found.unknown), dict(found.taken), found.num_nodes) == ({"Loop": 2}, {"If": 1, "Relu": 1}, 4)


def test_a_function_of_the_file_is_no_operator_and_its_nodes_are():
    made = model("Mine", domain="own")
    body = helper.make_function(
        "own", "Mine", ["x"], ["y"], [helper.make_node("Det", ["x"], ["y"])], [helper.make_opsetid("", 11)]
    )
    made.functions.append(body)
    found = judge(made)
    assert (dict(found.taken), dict(found.unknown)) == ({"Det": 1}, {})


def test_other_domains_are_told_with_their_name():
    assert dict(judge(model("Fused", domain="com.microsoft")).unknown) == {"com.microsoft::Fused": 1}
    assert dict(judge(model("NPURmsNorm", domain="npu")).taken) == {"npu::NPURmsNorm": 1}


def found_in(made, tmp_path):
    return list(findings([], (), judge(made), OnnxOptions(), tmp_path / "m.onnx"))


def test_not_taken_and_not_known_are_two_findings_with_what_to_do(tmp_path):
    rows = found_in(model("ReduceL2", "RNN", "Relu", opset=18), tmp_path)
    assert [(row.code, row.evidence["operator"]) for row in rows] == [("JM712", "ReduceL2"), ("JM713", "RNN")]
    assert "Mul, ReduceSum and Sqrt" in rows[0].action
    assert "8 to 17" in rows[0].message
    assert "LSTM or GRU" in rows[1].action
    assert "does not take" not in rows[1].message
    assert all("ATC was not run" in row.message for row in rows)


def test_a_newer_operator_set_is_one_finding(tmp_path):
    (row,) = found_in(model("Relu", "Conv", opset=20), tmp_path)
    assert (row.code, row.evidence["operators"]) == ("JM712", ["Conv", "Relu"])
    assert "--opset 18" in row.action


def test_a_file_that_atc_takes_has_no_finding(tmp_path):
    assert found_in(model("Relu", "Conv", "Gemm"), tmp_path) == []


def test_an_unknown_operator_of_a_newer_set_is_still_told(tmp_path):
    rows = found_in(model("Relu", "Gelu", opset=20), tmp_path)
    assert [row.code for row in rows] == ["JM712", "JM713"]


def test_the_table_says_where_it_is_from():
    data = json.loads(files("jumar.export.onnx").joinpath("data/atc_onnx.json").read_text())
    assert all(item["url"].startswith("https://") and len(item["commit"]) == 40 for item in data["sources"])
    assert table().newest == 18
    assert len(table().operators[""]) > 200
    standard = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(data["instead"]) - set(table().operators[""]) <= standard
