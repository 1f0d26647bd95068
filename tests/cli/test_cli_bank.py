"""`jumar bank merge|export|import|prune|verify` from the command line."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))
from tune_builders import MACHINE, gain, measured, mm_task, spec

from jumar.cli.main import main
from jumar.tune import Bank, this_machine
from jumar.tune.bank.entry import Tried
from jumar.tune.graph import Graph, Node
from jumar.tune.measure.worker.client import Turns, Worker
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import estimated_gain
from jumar.tune.model.task import Policy
from jumar.tune.plan import Plan, Region

NATIVE = Policy(kind="Impl", provider="aten_native")
FORMAT = Policy(kind="Format", provider="channels_last")


def fill(folder: Path, *sizes: int, machine=None, policy=NATIVE, ratio: float = 1.5) -> Path:
    folder.mkdir(exist_ok=True)
    bank = Bank.open(folder)
    for size in sizes:
        bank.accept(
            mm_task(size), machine or this_machine(), policy, incumbent=(), gain=gain(ratio), min_gain=0.02,
            tried=[Tried(policy=policy, outcome=measured(ratio))],
        )  # fmt: skip
    bank.close()
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_BANK_PATH", str(fill(tmp_path / "bank", 4, 5)))
    return tmp_path


def answer(capsys, *arguments: str) -> dict:
    assert main(["bank", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_merge_says_what_became_of_each_operator(folder, capsys):
    fill(folder / "theirs", 5, 6, ratio=1.8, policy=FORMAT)
    assert main(["bank", "merge", "theirs"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Merged 1 bank into ")
    assert said.endswith(": 1 operator added, 1 replaced by better policies, 0 kept, 0 left to the built-in layer.\n")
    entries = answer(capsys, "list")["entries"]
    assert sorted(entry["policy"]["provider"] for entry in entries) == ["aten_native", "channels_last", "channels_last"]


def test_merge_says_which_place_is_not_there(folder, capsys):
    assert main(["bank", "merge", "absent"]) == 2
    assert "PLACE must be an existing folder; got absent" in capsys.readouterr().err


def test_an_estimate_is_listed_as_one(folder, capsys):
    bank = Bank.open(folder / "bank")
    bank.accept(
        mm_task(9), this_machine("npu:Ascend910A"), FORMAT, incumbent=(), gain=estimated_gain(15.0, 10.0),
        min_gain=0.02, tried=[],
    )  # fmt: skip
    bank.close()
    assert main(["bank", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [("estimate" in line) for line in lines if "%" in line] == ["npu" in line for line in lines if "%" in line]
    assert any("+50.0 %, estimate" in line for line in lines)


def test_merge_refuses_policies_of_another_device_unless_told_to_leave_them_out(folder, capsys):
    fill(folder / "theirs", 6, machine=MACHINE)
    fill(folder / "theirs", 7)
    assert main(["bank", "merge", "theirs"]) == 2
    assert (
        "theirs must hold policies of this bank's devices only; it has some of cpu (a test" in capsys.readouterr().err
    )
    assert answer(capsys, "merge", "theirs", "--skip-others")["num_added"] == 1


def test_another_version_on_the_same_device_is_merged(folder, capsys):
    fill(folder / "theirs", 4, machine=replace(this_machine(), torch="2.12.0"))
    assert answer(capsys, "merge", "theirs")["num_added"] == 1


def test_what_is_exported_can_be_imported_and_is_the_same(folder, capsys, monkeypatch):
    assert main(["bank", "export", "-o", "bank.json"]) == 0
    (folder / "other").mkdir()
    before = answer(capsys, "list")["entries"]
    monkeypatch.setenv("TUNE_BANK_PATH", str(folder / "other"))
    assert answer(capsys, "import", "bank.json")["num_added"] == 2
    after = answer(capsys, "list")["entries"]
    assert [{**entry, "tried": []} for entry in before] == after


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: must be an entry that `jumar bank export` wrote"),
        ('{"op": "MatMulV3", "version": 0, "info_dict": {"m": 1}, "knowledge": {}}', "it lacks 'kind'"),
        ("[]", "line 1: must be an entry"),
    ],
)
def test_a_foreign_file_imports_nothing(folder, capsys, line, said):
    (folder / "foreign.json").write_text(line + "\n")
    assert main(["bank", "import", "foreign.json"]) == 2
    assert said in capsys.readouterr().err
    assert len(answer(capsys, "list")["entries"]) == 2


def test_the_exports_of_two_banks_in_one_file_are_refused(folder, capsys):
    assert main(["bank", "export", "-o", "bank.json"]) == 0
    lines = (folder / "bank.json").read_text("utf-8")
    (folder / "two.json").write_text(lines + lines, "utf-8")
    assert main(["bank", "import", "two.json"]) == 2
    said = capsys.readouterr().err
    assert "two.json, line 3: must be the only one for its operator, machine and kind of policy; line 1 is" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "Tiling"}, "must be one of Subgraph, Format, Impl, Schedule; got Tiling"),
        ({"kind": "Subgraph"}, "it lacks 'regions'"),
        ({"updated": "yesterday"}, "line 1: must be an entry that `jumar bank export` wrote; Invalid isoformat"),
        ({"created": "2026-01-01T00:00:00"}, "the time '2026-01-01T00:00:00' has no zone"),
    ],
)
def test_a_line_whose_policy_is_none_imports_nothing(folder, capsys, change, said):
    assert main(["bank", "export", "-o", "bank.json"]) == 0
    line = json.loads((folder / "bank.json").read_text("utf-8").splitlines()[0])
    line["knowledge"] |= change
    (folder / "changed.json").write_text(json.dumps(line), "utf-8")
    assert main(["bank", "import", "changed.json"]) == 2
    assert said in capsys.readouterr().err


DAMAGES = ["base = '[{}]'", "kind = 'Tiling'", "kind = 'Format'", "gain = '{}'", "tried = '1'", "updated = 'yesterday'"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["list", "export -o out.json", "prune --unsatisfied", "merge theirs"])
def test_a_row_that_nobody_wrote_is_one_sentence_that_verify_completes(folder, capsys, damage, command):
    fill(folder / "theirs", 5, ratio=1.8)
    with sqlite3.connect(folder / "bank" / "jumar_tune_bank.sqlite3") as connection:
        connection.execute(f"UPDATE slots SET {damage} WHERE id = 2")
    assert main(["bank", *command.split()]) == 2
    assert "has damaged entries" in (said := capsys.readouterr().err)
    assert "See which: jumar bank verify." in said
    assert main(["bank", "verify"]) == 1
    said = capsys.readouterr().out
    assert "cannot be read: " in said
    assert said.endswith("has 1 problem.\n")


def test_a_damaged_neighbour_keeps_nobody_from_tuning(folder):
    with sqlite3.connect(folder / "bank" / "jumar_tune_bank.sqlite3") as connection:
        connection.execute("UPDATE slots SET tried = '[{' WHERE id = 2")
    bank = Bank.open(folder / "bank")
    assert [one.work.key for one in bank.nearest(mm_task(6), this_machine())] == [mm_task(4).key]
    bank.close()


def test_prune_must_be_told_what_and_can_be_tried_dry(folder, capsys):
    assert main(["bank", "prune"]) == 2
    assert "needs to know what to remove" in capsys.readouterr().err
    fill(folder / "bank", 8, machine=replace(this_machine(), num_threads=64))
    for other in ({"model": "another processor"}, {"capability": "another"}, {"device": "npu"}):
        fill(folder / "bank", 8, machine=replace(this_machine(), **other))
    assert len(answer(capsys, "prune", "--other-versions", "--dry-run")["removed"]) == 1
    assert main(["bank", "prune", "--other-versions"]) == 0
    assert "1 entry of" in capsys.readouterr().out
    assert len(answer(capsys, "list")["entries"]) == 5, "what holds for other machines stays"
    for days in ("1", "1e12", "nan", "inf"):
        assert answer(capsys, "prune", "--older-than", days)["removed"] == []
    assert len(answer(capsys, "prune", "--older-than", "0")["removed"]) == 5


def test_verify_finds_a_whole_bank_and_a_damaged_one(folder, capsys):
    assert main(["bank", "verify"]) == 0
    assert capsys.readouterr().out.endswith("jumar_tune_bank.sqlite3 is whole.\n")
    file = folder / "bank" / "jumar_tune_bank.sqlite3"
    data = bytearray(file.read_bytes())
    middle = data.index(b"aten_native")
    data[middle : middle + 8] = b"\0" * 8
    file.write_bytes(data)
    assert main(["bank", "list"]) == 2
    assert "See which: jumar bank verify." in capsys.readouterr().err
    assert main(["bank", "verify"]) == 1
    said = capsys.readouterr().out
    assert "cannot be read: JSONDecodeError" in said
    assert said.endswith("jumar_tune_bank.sqlite3 has 1 problem.\n")


def test_verify_measures_again_without_changing_the_bank(folder, capsys):
    before = (folder / "bank" / "jumar_tune_bank.sqlite3").read_bytes()
    code = main(["bank", "verify", "--measure", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [one["policies"][0]["provider"] for one in document["measured"]] == ["aten_native"] * 2
    verdicts = {one["verdict"] for one in document["measured"]}
    assert verdicts <= {"faster", "same", "slower", "not-judged"}
    assert code == int("slower" in verdicts)
    assert (folder / "bank" / "jumar_tune_bank.sqlite3").read_bytes() == before


def test_verify_says_how_many_operators_the_time_did_not_suffice_for(folder, capsys, monkeypatch):
    monkeypatch.setattr("jumar.tune.job.remeasure.Worker.run", lambda *_: time.sleep(0.02) or measured(1.5))
    assert main(["bank", "verify", "--measure", "--time-budget", "0.01s"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith(
        "is whole; 1 operator measured again, 0 of them worse than untuned; 1 operator not measured: --time-budget was "
        "over."
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--time-budget", "2m"], '"--time-budget 2m" would do nothing without --measure'),
        (["--measure", "--time-budget", "0s"], "--time-budget must be more than nothing"),
    ],
)
def test_a_time_budget_of_verify_that_does_nothing_is_refused(folder, capsys, options, said):
    assert main(["bank", "verify", *options]) == 2
    assert said in capsys.readouterr().err


def test_verify_leaves_graphs_out_and_counts_what_was_measured(folder, capsys, monkeypatch):
    graph = Graph(inputs=[spec(4, 8)], nodes=[Node(operator="aten::relu", arguments=[{"value": 0}])], outputs=[1])
    plan = Plan(regions=(Region(nodes=(), engine="eager"),)).policy()
    bank = Bank.open(folder / "bank")
    bank.accept(graph, this_machine(), plan, incumbent=(), gain=gain(1.5), min_gain=0.02, tried=[])
    bank.close()
    outcomes = [Outcome(status="busy", phase="measure", detail="other programs"), measured(1.5)]
    monkeypatch.setattr("jumar.tune.job.remeasure.Worker.run", lambda *_: outcomes.pop())
    assert main(["bank", "verify", "--measure"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith(
        "is whole; 1 operator measured again, 0 of them worse than untuned; 1 not judged; 1 graph not measured: their "
        "weights are not in the bank."
    )
    assert outcomes == []


def test_the_built_in_layer_is_read_and_not_listed_as_the_banks_own(folder, capsys, monkeypatch):
    monkeypatch.setenv("JUMAR_BUILT_IN_BANK", str(fill(folder / "built-in", 9)))
    assert len(answer(capsys, "list")["entries"]) == 2
    monkeypatch.setenv("JUMAR_BUILT_IN_BANK", str(folder / "absent"))
    assert main(["bank", "list"]) == 2
    assert "JUMAR_BUILT_IN_BANK must be an existing folder" in capsys.readouterr().err


def test_measuring_again_takes_turns_with_runs_that_tune(folder, monkeypatch, capsys):
    turns = []

    class Quiet(Worker):
        def __init__(self, providers, given=None, **fields):
            super().__init__(providers, given, **fields)
            turns.append(given)

        def run(self, trial, limits):
            return measured(1.5)

    monkeypatch.setattr("jumar.tune.job.remeasure.Worker", Quiet)
    assert main(["bank", "verify", "--measure"]) == 0
    assert [type(one) for one in turns] == [Turns]
    capsys.readouterr()
