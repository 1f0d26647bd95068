"""A trial of a graph: real inputs, written inputs, budgets, memory that was not written."""

from __future__ import annotations

from dataclasses import replace

import graph_models as models
import odd_providers as odd
import pytest
import torch
from tune_builders import QUICK, mm_task, spec

from jumar.tune.graph import Graph, Node
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import load, save
from jumar.tune.graph.inputs import make_constants, make_inputs, refill
from jumar.tune.graph.operators import function_of, graph_of
from jumar.tune.measure.worker.agreement import Judge, Rule, compare
from jumar.tune.measure.worker.client import Worker
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial
from jumar.tune.measure.worker.trial import Case, size_bytes, written_inputs
from jumar.tune.model.task import Policy, Task, TensorSpec

LIMITS = Limits(time_s=60, memory_bytes=2 << 30)


def value(number: int) -> dict[str, int]:
    return {"value": number}


def accumulating() -> Graph:
    """`state += x * weight`, returning nothing and the new state's sum."""
    return Graph(
        inputs=[spec(4), spec(4), TensorSpec(shape=(4,), dtype="float32", stride=(1,), constant=True)],
        nodes=[
            Node(operator="aten::mul.Tensor", arguments=[value(1), value(2)]),
            Node(operator="aten::add.Tensor", arguments=[value(0), value(3)]),
            Node(operator="aten::sum", arguments=[value(4)]),
            Node(operator="aten::copy_", arguments=[value(0), value(4)]),
        ],
        outputs=[None, 5],
        effects=[6],
    )


@pytest.fixture
def captured(tmp_path):
    model, x = models.residual()
    return graph_of_module(model, (x,), folder=tmp_path)


@pytest.fixture(scope="module")
def worker():
    with Worker([odd.Same(), odd.Cached()]) as worker:
        yield worker


def trial(captured, provider, **fields) -> Trial:
    known = {
        "task": captured.graph, "data": str(captured.data), "incumbent": (), "candidate": (provider.policy(),),
        "num_threads": 1, "effort": QUICK,
    }  # fmt: skip
    return Trial(**(known | fields))


def test_a_graph_is_measured_on_its_real_weights(worker, captured):
    outcome = worker.run(trial(captured, odd.Same()), LIMITS)
    assert (outcome.status, outcome.detail) == ("measured", "")
    assert 0 < outcome.worst_error <= outcome.allowed_error < 1e-4


def test_a_candidate_that_remembers_the_first_inputs_is_seen(worker, captured):
    outcome = worker.run(trial(captured, odd.Cached()), LIMITS)
    assert outcome.status == "disagrees"
    assert outcome.worst_error > outcome.allowed_error


def test_a_missing_data_file_is_no_fault_of_the_candidate(worker, captured):
    outcome = worker.run(trial(captured, odd.Same(), data="absent.pt"), LIMITS)
    assert (outcome.status, outcome.phase) == ("task-failed", "task")
    assert "holds no weights of a graph" in outcome.detail


def test_a_trial_of_a_graph_survives_json(captured):
    known = trial(captured, odd.Same(), error_budget=1e-2)
    assert Trial.from_json(known.to_json()) == known
    again = Outcome(status="busy", detail="x")
    assert Outcome.from_json(again.to_json()) == again


def test_real_inputs_come_with_seed_0_and_others_are_drawn_from_them(captured):
    graph = replace(captured.graph, inputs=[spec(2, 3, dtype="int64"), spec(2, 3), *captured.graph.inputs[2:]])
    real = {0: torch.tensor([[7, 8, 9], [7, 7, 7]]), 1: torch.full((2, 3), 2.0)}
    first, second = make_inputs(graph, 0, real)
    assert torch.equal(first, real[0])
    assert torch.equal(second, real[1])
    drawn, spread = make_inputs(graph, 5, real)
    assert set(drawn.flatten().tolist()) <= {7, 8, 9}
    assert spread.std() > 0
    assert float(spread.min()) >= 1
    refill([first, second], graph, 5, real)
    assert torch.equal(first, drawn)


def test_weights_without_data_keep_to_what_is_recorded_of_them():
    variance = TensorSpec(shape=(100,), dtype="float32", stride=(1,), mean=1.0, rms=1.5, minimum=0.1, constant=True)
    task = Task(operator="aten::mul.Tensor", tensors={"self": spec(100), "other": variance}, arguments={})
    assert float(make_constants(task)[1].min()) >= 0
    assert len(make_inputs(task, 0)) == 1


def test_inputs_that_are_written_are_compared_and_put_back(tmp_path):
    save(tmp_path / "data.pt", {0: torch.arange(4.0), 1: torch.ones(4), 2: torch.full((4,), 3.0)})
    case = Case(accumulating(), data=str(tmp_path / "data.pt"))
    assert written_inputs(case.work) == [0]
    assert case.judge(case.plain, ()).compare().detail == ""
    assert torch.equal(case.tensors[0], torch.arange(4.0))

    def forgets(state, x):
        return None, (state + x * 3).sum()

    def wrong(state, x):
        state += x * 3.01
        return None, (state + x * 0).sum()

    assert "its error is" in case.judge(forgets, ()).compare().detail
    assert "its error is" in case.judge(wrong, ()).compare().detail


def test_a_result_where_nothing_must_be_is_a_difference(tmp_path):
    case = Case(accumulating())

    def full(state, x):
        total = (state + x * case.constants[2]).sum()
        state += x * case.constants[2]
        return total, total

    assert "nothing where a tensor must be" in case.judge(full, ()).compare().detail


def test_memory_that_was_not_written_shows():
    def doubled(x):
        return x * 2

    def forgets_the_end(x):
        made = torch.empty_like(x)
        made[:-1] = x[:-1] * 2
        return made

    for size in (100, 1 << 16, 1 << 20):
        assert compare(doubled, forgets_the_end, [torch.randn(size)]).detail != ""


def test_an_earlier_output_must_keep_its_values_unless_the_plan_reuses_memory():
    buffer = torch.empty(8)
    tensors = [torch.randn(8)]

    def reuses(x):
        return torch.mul(x, 2, out=buffer)

    for may_reuse, said in ((False, "it writes over the outputs of an earlier call"), (True, "")):
        judge = Judge(lambda x: x * 2, reuses, tensors, Rule(may_reuse=may_reuse))
        assert judge.compare().detail == ""
        tensors[0].normal_()
        assert judge.compare().detail == said


def test_reuse_is_read_from_anywhere_in_the_policies_settings():
    case = Case(mm_task())
    deep = Policy(kind="Subgraph", provider="plan", settings={"regions": [{"settings": {"reuse": True}}]})
    assert case.judge(case.plain, (deep,)).rule.may_reuse
    assert not case.judge(case.plain, (replace(deep, settings={"reuse": "no"}),)).rule.may_reuse


def test_a_budget_is_what_is_allowed_and_lets_few_integers_differ():
    values = [torch.randn(1000, generator=torch.Generator().manual_seed(0))]

    def judged(candidate, budget):
        plain = lambda x: (x * 2, x > 0)  # noqa: E731 - two outputs in a line
        return compare(plain, candidate, values, Rule(error_budget=budget)).detail

    rough = lambda x: ((x * 2).bfloat16().float(), x > 1e-3)  # noqa: E731 - as above
    assert judged(rough, 1e-2) == ""
    assert "may be 0.0001" in judged(rough, 1e-4)
    assert judged(lambda x: (x * 2, x > 0.5), 1e-2) == "its integers differ"


def test_deep_graphs_may_round_a_little_more_but_not_without_end():
    def deep(x):
        for _ in range(100):
            x = x * 1.0
        return x

    values = [torch.randn(100)]
    candidate = lambda x: x * (1 + 3e-6)  # noqa: E731 - one line
    assert "its error is" in compare(lambda x: x * 1.0, candidate, values).detail
    assert compare(deep, candidate, values, Rule(num_operators=100)).detail == ""
    assert "its error is" in compare(lambda x: x * 1.0, candidate, values, Rule(num_operators=100)).detail
    rougher = lambda x: x * (1 + 2e-3)  # noqa: E731 - one line
    assert "may be 0.001" in compare(lambda x: x * 1.0, rougher, values, Rule(num_operators=10**12)).detail


def test_dtypes_that_a_graph_names_are_widened_in_the_reference():
    """In bfloat16 the default's own error is large; the reference must not be computed in bfloat16."""
    graph = Graph(
        inputs=[spec(64, 256, dtype="bfloat16"), spec(256, 64, dtype="bfloat16")],
        nodes=[
            Node(operator="aten::mm", arguments=[value(0), value(1)]),
            Node(operator="aten::to.dtype", arguments=[value(2), {"dtype": "float32"}]),
            Node(operator="aten::to.dtype", arguments=[value(3), {"dtype": "bfloat16"}]),
        ],
        outputs=[4],
    )
    case = Case(graph)
    agreement = case.judge(case.plain, ()).compare()
    assert agreement.detail == ""
    assert 1e-4 < agreement.worst_error < 1e-1


def test_an_operator_is_a_graph_of_one_node_and_computes_the_same():
    for task in (mm_task(), layer_norm()):
        graph = graph_of(task)
        inputs = make_inputs(task, 1)
        mine, theirs = function_of(graph)(*inputs), function_of(task)(*inputs)
        theirs = theirs if isinstance(theirs, tuple) else (theirs,)
        assert all(map(torch.equal, mine, theirs))
        assert [graph.spec_of(output).shape for output in graph.outputs] == [tuple(one.shape) for one in theirs]
        assert graph_of(task, theirs).values == graph.values


def layer_norm() -> Task:
    tensors = {"input": spec(4, 8), "weight": spec(8), "bias": spec(8)}
    return Task(operator="aten::native_layer_norm", tensors=tensors, arguments={"normalized_shape": [8], "eps": 1e-5})


def test_room_for_the_tensors_of_a_graph_comes_on_top_of_the_limit(captured):
    assert size_bytes(captured.graph) > 4 * 8 * 3 * 9
    assert size_bytes(mm_task()) == 4 * (32 + 32)


def test_what_is_expected_is_computed_once_for_all_trials_and_anew_for_other_weights(captured):
    def case() -> Case:
        return Case(captured.graph, data=str(captured.data))

    first = case()
    assert first.judge(first.plain, ()).compare().detail == ""
    second = case()
    second.plain = refuse
    agreement = second.judge(first.plain, ()).compare()
    assert (agreement.detail, agreement.worst_error > 0) == ("", True)
    second.fill(7)
    with pytest.raises(ZeroDivisionError):
        second.judge(first.plain, ()).compare()
    save(captured.data, {place: tensor * 1.5 for place, tensor in load(captured.data).items()})
    third = case()
    assert third.judge(third.plain, ()).compare().detail == ""


def refuse(*_tensors):
    raise ZeroDivisionError("it must not be computed again")


def test_a_damaged_file_of_what_is_expected_is_passed_over(captured):
    first = Case(captured.graph, data=str(captured.data))
    first.judge(first.plain, ()).compare()
    (kept,) = captured.data.parent.glob("*.expected-0")
    for content in (b"", b"cut short", kept.read_bytes()[:-200]):
        kept.write_bytes(content)
        again = Case(captured.graph, data=str(captured.data))
        assert again.judge(again.plain, ()).compare().detail == ""


def looking_up(reader: str = "aten::ne.Scalar", argument: object = 0) -> Graph:
    """Rows of a table by number, where another input says so; and what one more operator makes of the numbers."""
    return Graph(
        inputs=[spec(2, 16, dtype="int64"), spec(2, 16, dtype="bool"), replace(spec(30, 4), constant=True)],
        nodes=[
            Node(operator="aten::embedding", arguments=[value(2), value(0)]),
            Node(operator="aten::unsqueeze", arguments=[value(1), -1]),
            Node(operator="aten::mul.Tensor", arguments=[value(3), value(4)]),
            Node(operator=reader, arguments=[value(0), argument]),
        ],
        outputs=[5, 6],
        values=[spec(2, 16, 4), spec(2, 16, 1, dtype="bool"), spec(2, 16, 4), spec(2, 16)],
    )


@pytest.mark.parametrize(("row", "is_seen"), [(0, True), (7, False)])
def test_a_sample_of_equal_rows_and_masks_is_not_all_that_is_compared(row, is_seen):
    real = {0: torch.full((2, 16), row), 1: torch.full((2, 16), is_seen)}
    numbers, mask = make_inputs(looking_up(), 1, real)
    assert set(numbers.flatten().tolist()) <= set(range(30))
    assert len(set(numbers.flatten().tolist())) > 8
    assert 0 < int((mask == is_seen).sum()) < 32
    assert numbers.dtype is torch.int64
    assert all(map(torch.equal, make_inputs(looking_up(), 0, real), real.values()))


def test_equal_numbers_that_other_numbers_are_made_of_and_flags_stay():
    graph = looking_up("aten::add.Scalar", 1)
    graph = replace(graph, inputs=[graph.inputs[0], spec(dtype="bool"), graph.inputs[2]])
    numbers, flag = make_inputs(graph, 1, {0: torch.full((2, 16), 7), 1: torch.tensor(True)})
    assert (numbers.unique().tolist(), flag.item()) == ([7], True)
