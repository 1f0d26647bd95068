"""The result file of subgraph tuning has the vendor's fields, its counters add up, and rules tell what was found."""

from __future__ import annotations

import json
import re

import pytest
from tune_builders import MACHINE, gain, spec

from jumar.base.findings import Severity
from jumar.tune import this_machine
from jumar.tune.graph import Graph, Node
from jumar.tune.job.result_file import ResultFile
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import gain_of
from jumar.tune.model.machine import emulated_npu
from jumar.tune.plan import Plan, Region
from jumar.tune.rules import findings_of
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.subgraph.outcome import Attempt, Block, Cutting, GraphOutcome, Stitched

FAST = Plan(regions=(Region(nodes=(), engine="openvino", version="1"),))
INDUCTOR = Plan(regions=(Region(nodes=(), engine="inductor", version="1"),))


def graph_of_size(size: int) -> Graph:
    node = Node(operator="aten::relu", arguments=[{"value": 0}])
    return Graph(inputs=[spec(size)], nodes=[node], outputs=[1], values=[spec(size)])


def outcome(name: str, action: str = "unsatisfied", **fields) -> GraphOutcome:
    known = {} if action == "unsatisfied" else {"plan": FAST, "gain": gain(1.5)}
    return GraphOutcome(name=name, graph=graph_of_size(len(name)), action=action, **(known | fields))


def measured_attempt(plan, against, before_us: float, after_us: float, **fields) -> Attempt:
    found = Outcome(status="measured", phase="measure", gain=gain_of([before_us] * 20, [after_us] * 20))
    return Attempt(**({"plan": plan, "against": against, "stage": "engines", "outcome": found} | fields))


def result(*graphs, **fields) -> TuneResult:
    known = {
        "recording": "net.pt2", "recorded_device": "cpu", "machine": MACHINE, "min_gain": 0.02, "graphs": list(graphs),
        "num_graphs": len(graphs), "job_type": 1, "status": "successful", "wall_s": 18.6,
    }  # fmt: skip
    return TuneResult(**(known | fields))


def written(tmp_path, found, ended=True):
    file = ResultFile(tmp_path, job_type=1)
    file.write(found, ended=ended)
    return file.path.name, json.loads(file.path.read_text("utf-8"))


def test_a_run_of_a_model_has_the_documented_fields_and_no_others(tmp_path):
    name, report = written(tmp_path, result(outcome("a", "add"), outcome("bb", "update"), is_offline=True))
    assert re.fullmatch(r"aoe_result_sgat_\d{17}_pid\d+\.json", name)
    basic, part = report
    assert basic["basic"]["tuning_time(s)"] == 19
    sgat = part["SGAT"]
    assert set(sgat) == {
        "model_baseline_performance(ms)", "model_performance_improvement", "model_result_performance(ms)",
        "repo_modified_subgraphs", "repo_summary",
    }  # fmt: skip
    assert set(sgat["repo_modified_subgraphs"]) == {"add_repo_subgraphs", "update_repo_subgraphs"}
    (added,) = sgat["repo_modified_subgraphs"]["add_repo_subgraphs"]
    assert set(added) == {
        "performance_after_tune(ms)", "performance_before_tune(ms)", "performance_improvement", "repo_key",
    }  # fmt: skip
    assert added["repo_key"] == str(int(graph_of_size(1).key[:16], 16))
    assert 0 <= int(added["repo_key"]) < 2**64


def test_a_run_of_a_script_is_one_report_under_a_key(tmp_path):
    _, report = written(tmp_path, result(outcome("a", "add")))
    ((key, parts),) = report.items()
    assert re.fullmatch(r"report_\d{17}_\d+", key)
    assert [next(iter(part)) for part in parts] == ["basic", "SGAT"]


@pytest.mark.parametrize("actions", [["add"], ["add", "update", "reserved", "unsatisfied", "unsatisfied"], []])
def test_the_counters_add_up(tmp_path, actions):
    _, report = written(tmp_path, result(*(outcome("g" * n, one) for n, one in enumerate(actions, 1)), num_graphs=9))
    (parts,) = report.values()
    counts = parts[1]["SGAT"]["repo_summary"]
    assert counts["repo_hit_num"] == counts["repo_reserved_num"] + counts["repo_update_num"]
    assert counts["total_num"] == counts["repo_hit_num"] + counts["repo_add_num"] + counts["repo_unsatisfied_num"]
    assert counts["total_num"] == len(actions)


def test_the_improvement_is_cut_and_of_the_numbers_written(tmp_path):
    one = outcome("a", "add", gain=gain_of([5600.486] * 20, [3610.442] * 20))
    (parts,) = written(tmp_path, result(one))[1].values()
    sgat = parts[1]["SGAT"]
    assert (sgat["model_baseline_performance(ms)"], sgat["model_result_performance(ms)"]) == (5.600486, 3.610442)
    assert sgat["model_performance_improvement"] == "55.11%"


def test_a_run_that_was_interrupted_has_no_time_and_one_whose_graphs_failed_no_part(tmp_path):
    (parts,) = written(tmp_path, result(outcome("a", "add"), status="incomplete"), ended=False)[1].values()
    assert "tuning_time(s)" not in parts[0]["basic"]
    (parts,) = written(tmp_path, result(outcome("a", failure="no kernel"), status="failed"))[1].values()
    assert [next(iter(part)) for part in parts] == ["basic"]


def test_a_graph_without_a_faster_plan_counts_with_its_time_unchanged(tmp_path):
    kept = outcome("a", baseline=INDUCTOR, attempts=[measured_attempt(INDUCTOR, None, 4000.0, 2000.0)])
    (parts,) = written(tmp_path, result(kept, outcome("bb", "add")))[1].values()
    sgat = parts[1]["SGAT"]
    before, after = sgat["model_baseline_performance(ms)"], sgat["model_result_performance(ms)"]
    assert (before, after) == (pytest.approx(2.15, abs=1e-4), pytest.approx(2.1, abs=1e-4))


def codes(*graphs) -> dict[str, str]:
    return {finding.code: finding.message for finding in findings_of(result(*graphs))}


def test_a_faster_plan_is_reported_with_its_interval():
    found = codes(outcome("net", "add", baseline=INDUCTOR))
    assert set(found) == {"JM520"}
    assert "net is faster under the plan `openvino`: 150 → 100 us, +50.0 %" in found["JM520"]


def test_a_plan_for_the_emulated_npu_is_neither_measured_nor_applied_by_jumar():
    npu = emulated_npu("Ascend310P3")
    (found,) = findings_of(result(outcome("net", "add"), machine=npu, recording="net.onnx", is_offline=True))
    assert found.why.startswith("Estimated from end to end for emulated npu (Ascend310P3")
    assert found.action.startswith("Take it up in the program by hand")
    (found,) = findings_of(result(outcome("net"), machine=npu))
    assert "Estimated: nothing is faster than eager" in found.message


def test_a_graph_that_stays_as_it_was_is_reported_with_what_came_closest():
    attempts = [measured_attempt(FAST, INDUCTOR, 101.0, 100.0, stage="confirmation")]
    found = codes(outcome("net", baseline=INDUCTOR, attempts=attempts))
    assert set(found) == {"JM521"}
    assert "among 1 plans; the closest was `openvino`, 101 → 100 us" in found["JM521"]
    known = codes(outcome("net", from_bank=True))
    assert "The bank knows nothing is faster than the faster default by 2 %" in known["JM521"]


def test_a_search_that_was_stopped_or_disturbed_concludes_nothing():
    busy = Attempt(plan=FAST, against=None, stage="engines", outcome=Outcome(status="busy", detail="others"))
    assert set(codes(outcome("net", stopped_by="--time-budget"))) == set()
    assert set(codes(outcome("net", attempts=[busy]))) == {"JM507"}


def test_a_block_that_loses_at_its_borders_is_evidence():
    blocks = [
        Block(first=1, num_operators=3, key="a", engines_us={"openvino": 10.0, "eager": 30.0}),
        Block(first=4, num_operators=3, key="b", engines_us={"openvino": 10.0, "eager": 8.0}),
    ]
    stitched = Stitched(plan=FAST, engines=["openvino", "eager"], promised_us=18.0, measured_us=25.0)
    cutting = Cutting(blocks=blocks, best_whole="openvino", own_engine="openvino", whole_us=20.0, stitched=[stitched])
    found = codes(outcome("net", "add", cutting=cutting))
    assert set(found) == {"JM520", "JM522"}
    assert "block 2 of 2 takes 8 us in eager and 10 us in openvino alone" in found["JM522"]
    assert "promised 18 us and took 25 us" in found["JM522"]


def test_a_plan_that_cuts_the_batch_and_a_batch_that_is_not_cut_are_reported():
    halves = Plan(regions=FAST.regions, batch=(4, 3))
    assert "batch of 7 cut into 4+3" in codes(outcome("net", "add", plan=halves))["JM523"]
    assert "statistics" in codes(outcome("net", "add", not_cut={"4+3": "it has statistics."}))["JM523"]


def test_a_graph_that_failed_is_a_warning():
    assert codes(outcome("net", failure="task-failed: no kernel")) == {
        "JM524": "net was not tuned: task-failed: no kernel."
    }


def test_what_an_engine_refuses_is_a_note_beside_what_it_lost():
    refused = Outcome(status="failed", phase="candidate", detail="prims::add is not written as ONNX.", is_refusal=True)
    crashed = Outcome(status="failed", phase="candidate", detail="RuntimeError: no memory")
    attempts = [Attempt(plan=FAST, against=None, stage="engines", outcome=one) for one in (refused, crashed)]
    found = [one for one in findings_of(result(outcome("net", "add", attempts=attempts))) if one.code == "JM502"]
    assert [(one.severity, one.message) for one in found] == [
        (Severity.WARNING, "`openvino` was lost on 1 of 2 candidates (failed), first on net: RuntimeError: no memory."),
        (Severity.INFO, "`openvino` does not take 1 of 2 candidates, first of net: prims::add is not written as ONNX."),
    ]


def test_candidates_of_graphs_that_were_lost_are_counted_by_engine_and_those_left_out_are_not():
    lost = Outcome(status="died", phase="candidate", detail="signal 11")
    attempts = [
        Attempt(plan=FAST, against=None, stage="engines", outcome=lost),
        Attempt(plan=INDUCTOR, against=None, stage="engines", outcome=lost, is_left_out=True),
    ]
    found = codes(outcome("net", "add", attempts=attempts))
    assert "`openvino` was lost on 1 of 1 candidate (died), first on net: signal 11" in found["JM502"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"recording": "train.py"}, "jumar run --tuned train.py"),
        ({"recording": "net.onnx", "is_offline": True}, "jumar tune net.onnx --job-type 1 --output FILE.jumar"),
        ({"recording": "net:make", "is_offline": True}, 'torch.compile(model, backend="jumar")'),
    ],
)
def test_a_plan_is_used_in_the_way_of_what_was_tuned(fields, said):
    (found,) = findings_of(result(outcome("net", "add"), **fields))
    assert said in found.action
    assert found.why.startswith("Measured from end to end on")


def test_a_plan_for_the_emulated_npu_is_estimated_and_nothing_of_the_cpu_s_is_advised_for_it():
    machine = this_machine("npu:Ascend910A")
    attempts = [measured_attempt(FAST, None, 101.0, 100.0)]
    graphs = outcome("net", "add"), outcome("other", attempts=attempts)
    found = {one.code: one for one in findings_of(result(*graphs, machine=machine, is_offline=True))}
    assert found["JM520"].why.startswith("Estimated from end to end for emulated npu (Ascend910A")
    assert "by hand" in found["JM520"].action
    assert "torch.compile" not in found["JM520"].action
    assert "Estimated: nothing is faster" in found["JM521"].message


def test_the_least_gain_is_told_as_it_was_asked_for():
    (found,) = findings_of(result(outcome("net"), min_gain=0.005))
    assert "by 0.5 % or more" in found.message
