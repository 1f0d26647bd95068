"""The slow operator of MindSpore's data pipeline is named: in files that MindSpore 2.10 wrote, and in made queues."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jumar.advise.look import look
from jumar.advise.timing.stages import slow_stage
from jumar.timeline.formats import mindspore
from jumar.timeline.model.events import Timeline

FOLDERS = Path(__file__).parents[2] / "fixtures" / "timeline" / "minddata_stages"


@pytest.mark.parametrize(
    ("slow", "operator", "words"),
    [
        ("source", "GeneratorOp 2", "and it is the source"),
        ("map", "MapOp 1", "13.6 rows wait for it behind GeneratorOp 2"),
        ("batch", "BatchOp 0", "13.1 rows wait for it behind MapOp 1"),
    ],
)
def test_the_operator_that_was_slowed_is_named(slow: str, operator: str, words: str) -> None:
    (advice,) = look(FOLDERS / slow)
    (finding,) = [one for one in advice.findings if one.code == "JM421"]
    assert finding.evidence["slow_operator"] == operator
    assert words in finding.message
    assert finding.action.startswith(f"Give {operator} more num_parallel_workers (1 now)")
    assert advice.checked == ("JM421",), "the files have no operators of the model, and the other rules need some"


def test_a_pipeline_that_keeps_up_is_not_accused() -> None:
    (advice,) = look(FOLDERS / "none")
    assert [one.code for one in advice.findings] == []


def made(folder: Path, queues: list[tuple[list[int], list[int]]]) -> Timeline:
    """Return a timeline of operators 0, 1, … with the depths of their queues and the numbers of their inputs."""
    import json

    operators = [
        {"op_id": number, "op_type": "Op", "num_workers": 3, "children": inputs,
         "metrics": {"output_queue": {"size": depths, "length": 16}}}
        for number, (depths, inputs) in enumerate(queues)
    ]  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "pipeline_profiling_0.json").write_text(json.dumps({"op_info": operators, "sampling_interval": 10}))
    (source,) = mindspore.find(folder)
    return mindspore.read(source)


def test_of_two_inputs_the_empty_one_is_followed(tmp_path: Path) -> None:
    empty, full = [0] * 8, [0] + [9] * 7
    stage = slow_stage(made(tmp_path / "x", [(empty, [1, 2]), (full, []), (empty, [3]), (full, [])]))
    assert stage is not None
    assert stage.queue.operator == "Op 2"
    assert stage.queue.workers == 3


@pytest.mark.parametrize(
    "queues",
    [
        [([0, 0], [])],  # too few samples
        [([0, 4, 4, 4, 4], [])],
        [([0, 0, 0, 0, 0], [1])],  # what it reads from was not sampled
        [([0, 0, 0, 0, 0], [0])],  # a damaged file: it reads from itself
    ],
)
def test_where_it_cannot_be_told_nothing_is_named(tmp_path: Path, queues: list[tuple[list[int], list[int]]]) -> None:
    assert slow_stage(made(tmp_path / "x", queues)) is None


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 16), max_size=6), st.lists(st.integers(0, 5), max_size=3)), max_size=6)
)
def test_any_graph_of_operators_ends(
    tmp_path_factory: pytest.TempPathFactory, queues: list[tuple[list[int], list[int]]]
) -> None:
    assume(any(depths for depths, _ in queues))  # without a sample there is nothing to read
    stage = slow_stage(made(tmp_path_factory.mktemp("any"), queues))
    if stage is not None:
        assert stage.queue.empty_share >= 0.5
