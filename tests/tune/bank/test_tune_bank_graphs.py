"""Graphs in the bank: schema 2, what an older one becomes, the nearest neighbour, and why there is a miss."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tune_builders import MACHINE, gain, measured, mm_task, spec

from jumar.tune.bank.entry import Tried, stack_of
from jumar.tune.bank.exchange import export_lines, import_lines
from jumar.tune.bank.presence import look_up, missing
from jumar.tune.bank.rows import SCHEMA_VERSION
from jumar.tune.bank.store import Bank
from jumar.tune.graph import Graph, Node
from jumar.tune.model.errors import BankError
from jumar.tune.model.task import Policy, TensorSpec
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.engines import ENGINES
from jumar.tune.providers.operators import settings_of

HERE = Path(__file__).parents[1]
FORMAT = Policy(kind="Format", provider="channels_last")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE / "bank")])}
EAGER = next(engine for engine in ENGINES if engine.name == "eager")


def graph(rows: int = 4, columns: int = 8, activation: str = "aten::relu") -> Graph:
    weight = TensorSpec(shape=(columns, columns), dtype="float32", stride=(columns, 1), constant=True)
    return Graph(
        inputs=[spec(rows, columns), weight],
        nodes=[
            Node(operator="aten::linear", arguments=[{"value": 0}, {"value": 1}]),
            Node(operator=activation, arguments=[{"value": 2}]),
        ],
        outputs=[3],
        values=[spec(rows, columns), spec(rows, columns)],
    )


def plan(engine: str = "eager", version: str | None = None, **fields) -> Plan:
    version = EAGER.version() if version is None else version
    return Plan(regions=(Region(nodes=(), engine=engine, version=version),), **fields)


def accept(bank: Bank, work, policy: Policy, machine=MACHINE, ratio: float = 1.5):
    tried = [Tried(policy=policy, outcome=measured(ratio))]
    return bank.accept(work, machine, policy, incumbent=(), gain=gain(ratio), min_gain=0.02, tried=tried)


@pytest.fixture
def bank(tmp_path):
    return Bank.open(tmp_path)


def first_schema(folder: Path) -> Path:
    path = folder / "jumar_tune_bank.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.executescript((HERE / "bank_v1.sql").read_text("utf-8"))
    return path


def test_a_plan_for_a_graph_comes_back_whole(bank):
    chosen = plan(batch=(2, 2), num_threads=1)
    assert accept(bank, graph(), chosen.policy()) == "add"
    entry = Bank.open(Path(bank.name).parent).slots(graph(), MACHINE)["Subgraph"]
    assert (entry.task, entry.task.values) == (graph(), graph().values)
    assert Plan.of(entry.policy) == chosen


def test_graphs_and_operators_share_a_bank_and_an_exchange_file(bank, tmp_path):
    accept(bank, graph(), plan().policy())
    accept(bank, mm_task(), FORMAT)
    lines = list(export_lines(bank.entries()))
    (tmp_path / "other").mkdir()
    other = Bank.open(tmp_path / "other")
    assert other.merge(import_lines(lines, "lines")).num_added == 2
    assert {entry.task.key for entry in other.entries()} == {graph().key, mm_task().key}
    assert other.problems() == []


def test_looking_into_a_bank_of_the_first_schema_changes_nothing(tmp_path):
    path = first_schema(tmp_path)
    before = path.read_bytes()
    old = Bank.open(tmp_path)
    assert len(old.entries()) == 2
    assert old.slots(mm_task(), MACHINE)["Format"].policy == FORMAT
    (neighbour,) = old.nearest(mm_task(16), MACHINE)
    assert neighbour.stack == (FORMAT,)
    assert old.problems() == []
    assert path.read_bytes() == before


def test_writing_brings_a_bank_of_the_first_schema_to_this_one(tmp_path):
    path = first_schema(tmp_path)
    bank = Bank.open(tmp_path)
    accept(bank, graph(), plan().policy())
    with sqlite3.connect(path) as connection:
        (version,) = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
        structures = dict(connection.execute("SELECT operator, structure FROM tasks"))
    assert int(version) == SCHEMA_VERSION
    assert all(structures.values())
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (FORMAT,)
    assert bank.nearest(mm_task(16), MACHINE)[0].work == mm_task()


def test_a_damaged_row_does_not_keep_a_bank_from_being_migrated(tmp_path):
    path = first_schema(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO tasks VALUES ('strange', 'aten::mm', '{\"nothing\": 1}')")
    bank = Bank.open(tmp_path)
    accept(bank, mm_task(32), FORMAT)
    assert {one.work.key for one in bank.nearest(mm_task(16), MACHINE)} == {mm_task().key, mm_task(32).key}


def test_a_bank_that_another_jumar_has_taken_to_a_newer_schema_is_not_written(bank):
    with sqlite3.connect(bank.name) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    with pytest.raises(BankError, match="has schema 99"):
        accept(bank, graph(), plan().policy())


WRITER = """
import sys
from pathlib import Path
from test_tune_bank_graphs import accept, graph, plan
from jumar.tune.bank.store import Bank
bank = Bank.open(Path(sys.argv[1]))
for rows in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    accept(bank, graph(rows), plan().policy())
    print(graph(rows).key, flush=True)
"""


def writer(folder: Path, first: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def test_writers_that_meet_in_an_old_bank_migrate_it_once_and_lose_nothing(tmp_path):
    first_schema(tmp_path)
    writers = [writer(tmp_path, 1 + 10 * number, 10) for number in range(3)]
    said = [line.strip() for one in writers for line in one.communicate(timeout=180)[0].splitlines()]
    assert [one.returncode for one in writers] == [0, 0, 0]
    kept = {entry.task.key for entry in Bank.open(tmp_path).entries()}
    assert kept == {*said, mm_task().key}
    assert len(said) == 30


def test_a_kill_while_an_old_bank_is_migrated_and_written_loses_nothing(tmp_path):
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        first_schema(folder)
        one = writer(folder, 1, 1000)
        said = [one.stdout.readline().strip()]
        time.sleep(0.03 * number)
        one.send_signal(signal.SIGKILL)
        said += [line.strip() for line in one.stdout if line.endswith("\n")]
        one.wait()
        one.stdout.close()
        bank = Bank.open(folder)
        assert {*said, mm_task().key} <= {entry.task.key for entry in bank.entries()}
        assert bank.problems() == []


FULL = """
import resource, signal, sys
from pathlib import Path
from test_tune_bank_graphs import accept, graph, plan
from jumar.tune.bank.store import Bank
from jumar.tune.model.errors import BankError
path = Path(sys.argv[1]) / "jumar_tune_bank.sqlite3"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
bank = Bank.open(path.parent)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, path.stat().st_size))
try:
    for rows in range(1, 200):
        accept(bank, graph(rows), plan().policy())
except BankError as error:
    sys.exit(0 if "the disk's space" in str(error) else 4)
sys.exit(3)
"""


def test_a_full_disk_while_an_old_bank_is_migrated_leaves_it_as_it_was(tmp_path):
    """A limit on the size of files does what a full disk does, at the same place."""
    path = first_schema(tmp_path)
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=False, env=ENVIRONMENT)
    assert done.returncode == 0
    bank = Bank.open(tmp_path)
    assert bank.problems() == []
    assert mm_task().key in {entry.task.key for entry in bank.entries()}
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_nearest_size_comes_first_and_says_what_is_another(bank):
    for rows in (64, 8, 16):
        accept(bank, graph(rows), plan().policy())
    accept(bank, graph(7, activation="aten::sigmoid"), plan().policy())
    found = bank.nearest(graph(10), MACHINE)
    assert [one.work.inputs[0].shape[0] for one in found] == [8, 16, 64]
    assert found[0].stack == (plan().policy(),)
    assert "shape of input 0 is [8, 8] in place of [10, 8]" in str(found[0])
    assert bank.nearest(graph(10, 4, "aten::tanh"), MACHINE) == []


def test_another_version_is_a_neighbour_and_another_device_is_none(bank):
    accept(bank, graph(), plan().policy(), machine=replace(MACHINE, torch="2.12.0"))
    accept(bank, graph(5), plan().policy())
    accept(bank, graph(4), plan().policy(), machine=replace(MACHINE, device="cuda"))
    found = bank.nearest(graph(), MACHINE)
    assert [(one.work.inputs[0].shape[0], one.entries[0].machine.torch) for one in found] == [
        (5, "2.13.0"),
        (4, "2.12.0"),
    ]
    assert bank.nearest(graph(5), replace(MACHINE, num_threads=1))[0].distance == 0.5


def test_what_was_tuned_for_nothing_is_no_neighbour_and_the_layer_beneath_is(bank, tmp_path):
    bank.remember_unsatisfied(graph(5), MACHINE, "Subgraph", incumbent=(), min_gain=0.02, tried=[])
    assert bank.nearest(graph(), MACHINE) == []
    (tmp_path / "own").mkdir()
    accept(bank, graph(6), plan().policy())
    own = Bank.open(tmp_path / "own", beneath=bank)
    accept(own, graph(40), plan().policy())
    assert [one.work.inputs[0].shape[0] for one in own.nearest(graph(), MACHINE)] == [6, 40]


def test_why_miss_names_the_input_and_its_size(bank):
    accept(bank, graph(8), plan().policy())
    found = look_up(graph(4), MACHINE, bank.entries())
    assert found.status == "miss"
    assert found.reason.startswith("The nearest entry differs: shape of input 0 is [4, 8] here and [8, 8] in the bank")


def test_why_miss_names_the_operator_or_the_argument_that_differs(bank):
    accept(bank, graph(activation="aten::sigmoid"), plan().policy())
    reason = look_up(graph(), MACHINE, bank.entries()).reason
    assert "number of aten::relu is 1 here and absent in the bank" in reason
    assert "number of aten::sigmoid is absent here and 1 in the bank" in reason
    accept(bank, scaled(2), plan().policy())
    differences = look_up(scaled(3), MACHINE, bank.entries()).differences
    assert [str(one) for one in differences] == [
        "argument 1 of operator 0 (aten::mul.Scalar) is 3 here and 2 in the bank"
    ]


def scaled(factor: int) -> Graph:
    node = Node(operator="aten::mul.Scalar", arguments=[{"value": 0}, factor])
    return Graph(inputs=[spec(4, 8)], nodes=[node], outputs=[1])


def test_why_miss_prefers_a_graph_of_the_same_structure(bank):
    accept(bank, graph(4, activation="aten::sigmoid"), plan().policy())
    accept(bank, graph(999, 77), plan().policy())
    assert look_up(graph(), MACHINE, bank.entries()).entries[0].task == graph(999, 77)


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("eager", "0.0.1", f"version of eager is {EAGER.version()} here and 0.0.1 in the bank"),
        ("an engine of the future", "1", "version of an engine of the future is absent here and 1 in the bank"),
    ],
)
def test_an_engine_that_is_absent_or_another_is_a_miss_that_names_it(bank, engine, version, said):
    accept(bank, graph(), plan(engine, version).policy())
    found = look_up(graph(), MACHINE, bank.entries())
    assert found.status == "miss"
    assert found.reason == f"The bank has it, for something else than is here: {said}."


def test_a_plan_of_this_engine_is_a_hit_and_an_absent_provider_is_named(bank):
    accept(bank, graph(), plan().policy())
    accept(bank, mm_task(), Policy(kind="Impl", provider="tvm"))
    assert look_up(graph(), MACHINE, bank.entries()).status == "hit"
    found = look_up(mm_task(), MACHINE, bank.entries())
    assert (found.status, found.differences[0].name) == ("miss", "provider tvm")


def test_a_long_list_of_differences_is_cut_short(bank):
    accept(bank, graph(999, 77), plan().policy())
    other = replace(MACHINE, torch="3.0", compiler="x", model="y", capability="z", num_threads=9)
    assert "; and " in look_up(graph(), other, bank.entries()).reason


@pytest.mark.parametrize(
    ("provider", "settings", "expected"),
    [
        ("onnxruntime", {"version": "0.0.1"}, ["version of onnxruntime"]),
        ("contiguous", {}, []),
        ("a provider of the future", {}, ["provider a provider of the future"]),
    ],
)
def test_an_operator_s_policy_names_the_engine_or_the_provider_that_is_not_as_measured(provider, settings, expected):
    pytest.importorskip("onnxruntime")
    policy = Policy(kind="Impl", provider=provider, settings=settings)
    assert [one.name for one in missing([policy], MACHINE)] == expected


def test_a_plan_names_what_its_operators_policies_need():
    inner = Policy(kind="Impl", provider="a provider of the future")
    region = Region(nodes=(), engine="operators", settings=settings_of({"a task": (inner,)}), version=EAGER.version())
    assert [one.name for one in missing([Plan(regions=(region,)).policy()], MACHINE)] == [f"provider {inner.provider}"]


def test_a_provider_that_has_not_its_engines_name_is_here_when_the_engine_is():
    kernels = next(engine for engine in ENGINES if engine.name == "kernels")
    if why := kernels.unavailable(MACHINE):
        pytest.skip(why)
    policy = Policy(kind="Schedule", provider="kernels_schedule", settings={"version": kernels.version()})
    assert missing([policy], MACHINE) == []
    older = replace(policy, settings={"version": "older"})
    assert [one.name for one in missing([older], MACHINE)] == ["version of kernels"]
