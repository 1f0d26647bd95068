"""What two banks have apart, by kind; and the shapes of a command beside a bank."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tune_builders import MACHINE, gain, measured, mm_task, pool_task, spec

from jumar.base.errors import UsageError
from jumar.tune import Bank
from jumar.tune.bank.agreement import banks_apart, gears_of, kind_of, kinds_of, shape_text, shapes_apart
from jumar.tune.bank.entry import Entry, Tried
from jumar.tune.bank.neighbours import Difference
from jumar.tune.graph import Graph, Node
from jumar.tune.model.task import Policy, Task

NATIVE = Policy(kind="Impl", provider="aten_native")


def bank(folder: Path, *tasks, machine=MACHINE) -> list[Entry]:
    folder.mkdir()
    opened = Bank.open(folder)
    for task in tasks:
        opened.accept(task, machine, NATIVE, incumbent=(), gain=gain(1.5), min_gain=0.02,
                      tried=[Tried(policy=NATIVE, outcome=measured(1.5))])  # fmt: skip
    found = opened.entries()
    opened.close()
    return found


def halved(task: Task) -> Task:
    return replace(task, tensors={name: replace(one, dtype="float16") for name, one in task.tensors.items()})


def graph(*shape: int) -> Graph:
    node = Node(operator="aten::relu", arguments=[{"input": 0}], keywords={})
    return Graph(inputs=[spec(*shape)], nodes=[node], outputs=[{"node": 0}])


def test_equal_banks_have_nothing_apart(tmp_path):
    found = banks_apart(bank(tmp_path / "a", mm_task(4), pool_task()), bank(tmp_path / "b", pool_task(), mm_task(4)))
    assert (found.num_first, found.num_both, list(found.kinds), found.num_only_first) == (2, 2, [], 0)
    assert not found.machines_apart


@pytest.mark.parametrize(
    ("other", "kind"), [(mm_task(8), "shape"), (halved(mm_task(4)), "dtype"), (pool_task(48, 5), "structure")]
)
def test_a_difference_is_told_by_its_kind(tmp_path, other, kind):
    mine = pool_task(48, 17) if kind == "structure" else mm_task(4)
    found = banks_apart(bank(tmp_path / "a", mine), bank(tmp_path / "b", other))
    assert [(one.kind, one.num_works) for one in found.kinds] == [(kind, 1)]
    assert found.kinds[0].example.asked != found.kinds[0].example.in_bank


def test_what_the_other_bank_has_nothing_like_is_counted_and_not_accused(tmp_path):
    found = banks_apart(bank(tmp_path / "a", mm_task(4), pool_task()), bank(tmp_path / "b", mm_task(4)))
    assert (found.num_only_first, list(found.kinds), found.num_both) == (1, [], 1)


def test_an_empty_bank_and_other_machines(tmp_path):
    other = replace(MACHINE, model="another processor")
    one, two = bank(tmp_path / "a", mm_task(4)), bank(tmp_path / "b", mm_task(4), machine=other)
    assert banks_apart(one, two).machines_apart
    assert list(banks_apart(one, two).kinds) == []
    assert (banks_apart([], one).num_first, banks_apart(one, []).num_only_first) == (0, 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("shape of input 0", "shape"), ("dtype of self", "dtype"), ("stride of weight 3", "format"),
     ("number of aten::relu", "structure"), ("dilation", "structure"), ("operator", "structure"),
     ("argument 1 of operator 3 (aten::relu)", "structure"), ("num_threads", None), ("torch", None),
     ("version of openvino", None), ("provider onnx", None)],
)  # fmt: skip
def test_properties_have_kinds(name, kind):
    assert kind_of(Difference(name=name, asked="1", in_bank="2")) == kind


def test_a_layout_that_follows_from_a_shape_is_none_of_its_own():
    rows = [Difference(name=f"{what} of self", asked="1", in_bank="2") for what in ("stride", "shape")]
    assert list(kinds_of(rows)) == ["shape"]


def test_gears_are_read_as_atc_writes_them():
    assert gears_of("x:1,3;y:2") == (["x", "y"], [((1, 3), (2,))])
    assert gears_of("x:-1,3", batches="1,4") == (["x"], [((1, 3),), ((4, 3),)])
    assert gears_of("x:1,3,-1,-1", images="8,9;10,11") == (["x"], [((1, 3, 8, 9),), ((1, 3, 10, 11),)])
    assert gears_of("x:-1,3;y:-1", dims="1,2;3,4;") == (["x", "y"], [((1, 3), (2,)), ((3, 3), (4,))])
    assert shape_text(["x", "y"], ((1, 3), (2,))) == "x:1,3;y:2"


@pytest.mark.parametrize(
    "given", [("x:a",), ("x:-1,3",), ("x:-1,-1", "", "1,2,3"), ("x:1", "1,2"), ("x:-1", "a"), ("x:",)]
)
def test_wrong_shapes_are_refused(given):
    if given == ("x:1", "1,2"):
        assert gears_of(*given)[1] == [((1,),), ((1,),)]  # nothing is open: the gears change nothing
        return
    with pytest.raises(UsageError):
        gears_of(*given)


def test_a_gear_that_the_bank_lacks_is_found_beside_the_nearest_graph(tmp_path):
    entries = bank(tmp_path / "a", graph(8, 3), graph(4, 3))
    found = shapes_apart(entries, [((8, 3),), ((2, 3),)])
    assert (list(found.missing), found.num_graphs) == ([((2, 3),)], 2)
    assert found.nearest in (((8, 3),), ((4, 3),))
    assert shapes_apart(entries, [((8, 3, 1),)]).nearest is None


def test_without_graphs_the_tensors_of_operators_are_asked(tmp_path):
    entries = bank(tmp_path / "a", mm_task(4))
    shape = next(iter(entries[0].task.tensors.values())).shape
    assert list(shapes_apart(entries, [(shape,)]).missing) == []
    assert list(shapes_apart(entries, [((99, 99),)]).missing) == [((99, 99),)]
