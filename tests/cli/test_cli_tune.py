"""`jumar tune` and `jumar bank` from the command line: answers, exit codes, bad input."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))

from odd_providers import Same
from tune_builders import MACHINE, QUICK, gain, measured, mm_row, mm_task, pool_row, write_recording

import jumar.tune
from jumar.base.errors import OutputError, UsageError
from jumar.cli import main as main_module
from jumar.cli.commands.tune.model import check_single, opened_model
from jumar.cli.main import main
from jumar.show.tuning.summary import verdict
from jumar.tune import Bank, TuneResult, this_machine
from jumar.tune.bank.entry import Tried
from jumar.tune.graph.operators import task_of
from jumar.tune.measure.worker.messages import Limits, Outcome
from jumar.tune.model.process import Terminated
from jumar.tune.model.task import Policy
from jumar.tune.providers.pytorch import Native
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome
from jumar.tune.search.tasks.extract import Extraction, TaskUse
from jumar.tune.search.tasks.source import Source

NATIVE = Policy(kind="Impl", provider="aten_native")
FORMAT = Policy(kind="Format", provider="channels_last")


@pytest.fixture(autouse=True)
def commands(monkeypatch):
    for name in ("tune", "bank"):
        monkeypatch.setitem(main_module.COMMANDS, name, "")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a recording and an empty bank, and measurements that are quick."""
    from jumar.tune.measure.options import TuneOptions

    write_recording(tmp_path / "recording", [[mm_row(duration_us=50.0), pool_row()]], device="npu (emulated)")
    (tmp_path / "bank").mkdir()
    (tmp_path / "weights.pt").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    quick = {"screening": QUICK, "confirmation": QUICK, "limits": Limits(time_s=60)}
    monkeypatch.setattr("jumar.tune.TuneOptions", lambda **fields: TuneOptions(**(quick | fields)))
    # TorchInductor, whose import takes long, has its own tests.
    monkeypatch.setitem(jumar.tune.tune.__kwdefaults__, "providers", (Native(), Same()))
    return tmp_path


@pytest.fixture
def filled(folder):
    """The bank knows the recording's matrix product on this machine, and another shape on another machine."""
    bank, here, task = Bank.open(folder / "bank"), this_machine(), task_of(mm_row())
    for known, machine in ((task, here), (mm_task(64), MACHINE)):
        tried = [Tried(policy=NATIVE, outcome=measured(1.5))]
        bank.accept(known, machine, NATIVE, incumbent=(), gain=gain(1.5), min_gain=0.02, tried=tried)
    nothing = [Tried(policy=FORMAT, outcome=measured(0.9))]
    bank.remember_unsatisfied(task, here, "Format", incumbent=(), min_gain=0.02, tried=nothing)
    return folder


def test_the_answer_comes_first_with_the_devices_it_holds_for(folder, capsys):
    assert main(["tune", "recording"]) == 0
    out = capsys.readouterr().out
    first = next(line for line in out.splitlines() if line.strip())
    assert "2 operators" in first
    assert "says nothing about that device" in out


def test_json_is_one_document_and_the_result_file_is_beside(folder, capsys):
    assert main(["tune", "recording", "--trials", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["num_trials"] == 1
    assert document["stopped_by"] == "--trials"
    assert document["machine"]["device"] == "cpu"
    summary = document["summary"]
    assert summary["hit"] == summary["reserved"] + summary["update"]
    assert summary["total"] == summary["hit"] + summary["add"] + summary["unsatisfied"]
    (file,) = folder.glob("aoe_result_opat_*.json")
    assert Path(document["result_file"]) == file


def test_ctrl_c_prints_what_was_found_and_exits_with_130(filled, capsys, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("jumar.tune.measure.worker.client.Worker.run", stop)
    assert main(["tune", "recording"]) == 130
    out = capsys.readouterr().out
    assert "1 of 1 operators tuned so far has a policy" in out
    assert "Stopped by Ctrl-C after 1 of 2 operators" in out


def ended(monkeypatch, write=None, **fields) -> list:
    """Let a run of a model, or of a recording, end like this; return what each was asked for."""
    seen = []

    @contextmanager
    def opened(where, input_shape, selection, limit_s):
        graph = SimpleNamespace(gradients=[])
        yield SimpleNamespace(path=where, graphs=[SimpleNamespace(graph=graph, is_piece=False, data=Path("absent"))])

    def tune(source, **asked):
        seen.append(asked)
        return TuneResult(recording="net:make", recorded_device="cpu", machine=MACHINE, min_gain=0.02, **fields)

    monkeypatch.setattr("jumar.cli.commands.tune.entry.opened_model", opened)
    monkeypatch.setattr("jumar.cli.commands.tune.entry.write_artefact", write)
    monkeypatch.setattr("jumar.tune.tune", tune)
    return seen


WITH_OUTPUT = ["tune", "net:make", "--job-type", "1", "--output", "net.jumar"]


@pytest.mark.parametrize(("stopped_by", "code"), [("SIGTERM", 143), ("Ctrl-C", 130)])
def test_no_artefact_is_built_after_an_interruption(folder, monkeypatch, capsys, stopped_by, code):
    written = []
    ended(monkeypatch, lambda *asked: written.append(asked), job_type=1, stopped_by=stopped_by)
    assert main(WITH_OUTPUT) == code
    assert written == []
    assert f"Stopped by {stopped_by}" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "said", "code"), [(Terminated, "SIGTERM", 143), (KeyboardInterrupt, "Ctrl-C", 130)])
def test_an_interruption_while_the_artefact_is_built_is_told_with_what_was_found(
    folder, monkeypatch, capsys, error, said, code
):
    def interrupted(*asked):
        raise error

    ended(monkeypatch, interrupted, job_type=1)
    assert main(WITH_OUTPUT) == code
    assert f"Stopped by {said}" in capsys.readouterr().out


def refused(*asked, **also):
    raise OutputError("net.jumar cannot be written: No space left on device.")


def test_an_artefact_that_cannot_be_written_is_said_after_the_answer(folder, monkeypatch, capsys):
    ended(monkeypatch, refused, job_type=1)
    assert main(WITH_OUTPUT) == 2
    said = capsys.readouterr()
    assert "No graph was tuned" in said.out
    assert "net.jumar cannot be written" in said.err


def test_a_page_that_cannot_be_written_is_said_after_the_answer(folder, monkeypatch, capsys):
    ended(monkeypatch, num_tasks=1)
    monkeypatch.setattr("jumar.cli.commands.tune.entry.write_report", refused)
    assert main(["tune", "recording", "--report", "page.html"]) == 2
    said = capsys.readouterr()
    assert "None of 1 operators was tuned" in said.out
    assert "cannot be written" in said.err


def slot_of(outcome: Outcome) -> SlotOutcome:
    return SlotOutcome(kind="Impl", action="unsatisfied", tried=[Tried(policy=NATIVE, outcome=outcome)])


def test_nothing_is_concluded_from_what_could_not_be_judged():
    busy = slot_of(Outcome(status="busy", phase="measure", detail="other programs"))

    def headline(*slots: SlotOutcome) -> str:
        tasks = [TaskOutcome(use=TaskUse(task=mm_task()), slots=[slot]) for slot in slots]
        known = {"recording": "recording", "recorded_device": "cpu", "machine": MACHINE, "min_gain": 0.02}
        return verdict(TuneResult(**known, tasks=tasks, num_tasks=len(tasks))).headline

    assert headline(busy, busy).startswith("No policy of 2 operators could be judged in this run: no answer yet")
    assert headline(busy, slot_of(measured(0.9))).endswith("faster by 2 % or more; 1 could not be judged.")
    assert headline(slot_of(measured(0.9))).endswith("faster by 2 % or more.")


def test_deeper_measures_operators_for_longer(folder, monkeypatch):
    seen = ended(monkeypatch)
    assert [main(["tune", "recording"]), main(["tune", "recording", "--deeper"])] == [0, 0]
    assert [asked["options"].screening.seconds for asked in seen] == [QUICK.seconds, 3 * QUICK.seconds]


def test_a_page_of_a_run_that_was_cut_short_is_replaced_by_the_same_command(folder, capsys):
    asked = ["tune", "recording", "--report", "page.html"]
    assert main([*asked, "--trials", "1"]) == 0
    assert "the same command goes on, and replaces this page" in Path("page.html").read_text("utf-8")
    assert main(["tune", "absent", "--report", "page.html"]) == 2
    assert main(asked) == 0
    assert "replaces this page" not in Path("page.html").read_text("utf-8")
    assert main(asked) == 2
    assert capsys.readouterr().err.count("page.html exists and is not replaced") == 2


def test_a_result_file_that_cannot_be_finished_is_said_after_the_answer(filled, capsys, monkeypatch):
    from jumar.base.files import write_text

    def full_after_the_first(path, text):
        if path.exists():
            raise OSError(28, "No space left on device")
        write_text(path, text)

    monkeypatch.setattr("jumar.tune.job.result_file.write_text", full_after_the_first)
    assert main(["tune", "recording"]) == 2
    said = capsys.readouterr()
    assert "a policy that is faster" in said.out
    assert "cannot be written (No space left on device)" in said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent is not there. Name a model (.onnx, .pt2 of torch.export, module:callable), a script"),
        (["weights.pt"], "weights.pt is a file that is none of them. Name a model"),
        (["recording", "--job-type", "1"], "--job-type 1 tunes the graphs of a model"),
        (["recording", "--job-type", "1", "--output", "net.jumar"], "--job-type 1 tunes the graphs of a model"),
        (["recording", "--job-type", "3"], "--job-type must be 1 (subgraphs), 2 (operators) or 4 (gradients); got 3"),
        (["recording", "--output", "net.jumar"], "--output writes the plan of a whole graph"),
        (["recording", "--input-shape", "x:1,3"], "--input-shape is for a model"),
        (["absent.onnx"], "absent.onnx must be a file"),
        (["recording", "--device", "tpu"], '"--device tpu" must be cpu, cuda or npu, which are measured'),
        (["recording", "--device", "npu:Ascend999"], "Ascend999"),
        (["recording", "--device", "npu", "--cluster", "local"], "--cluster measures on CPUs, and --device is npu"),
        (
            ["net:make", "--job-type", "1", "--device", "npu", "--output", "net.jumar"],
            "--output writes a plan for CPUs, and --device is npu",
        ),
        (["recording", "--min-gain", "much"], "must be a percentage"),
        (["recording", "--time-budget", "soon"], "must be a number with s, m or h"),
        (["recording", "--trials", "0"], "--trials must be 1 or more"),
        (["recording", "--uneven-splits"], "--Fnonhomo_split belongs to job type 1, and this is a job of type 2"),
        (["net:make", "--job-type", "1", "--tune-ops-file", "ops.json"], "--tune-ops-file belongs to job type 2"),
        (["absent.onnx", "--rank", "1"], "--rank is for a recording of several processes"),
        (["recording", "--bank", "absent"], "--bank must be an existing folder"),
        (["recording", "--precision", "auto"], "--precision belongs to job type 1, and this is a job of type 2"),
        (
            ["net:make", "--job-type", "1", "--device", "npu", "--precision", "auto"],
            "--precision lowers graphs for CPUs, and --device is npu",
        ),
        (["net:make", "--job-type", "1", "--budget", "1e-2"], "--budget would do nothing without --precision auto"),
        (["net:make", "--job-type", "1", "--output", "a", "--report", "./a"], "--output and --report are both a."),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(folder, capsys, arguments, said):
    assert main(["tune", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (sentence,) = [line for line in captured.err.splitlines() if line.startswith("jumar: ")]
    assert said in sentence


def test_a_training_step_is_not_written_as_a_model_of_inference():
    step = SimpleNamespace(graph=SimpleNamespace(gradients=[0]), is_piece=False)
    source = Source(
        path="train.py", device="cpu", extraction=Extraction(tasks=[], not_tuned=[], num_calls=0), graphs=[step]
    )
    with pytest.raises(UsageError, match=r"what train\.py computes is a training step"):
        check_single(Path("net.jumar"), source)


def test_two_files_that_say_which_operators_are_tuned_are_refused(folder, capsys):
    Path("ops.json").write_text('{"tune_ops_type": ["mm"]}')
    Path("aoe.json").write_text('{"tune_ops_type": ["addmm"]}')
    assert main(["tune", "recording", "--tune-ops-file", "ops.json", "--aoe-config-file", "aoe.json"]) == 2
    assert "--tune-ops-file ops.json and --aoe-config-file aoe.json both say" in capsys.readouterr().err


def test_list_shows_policies_and_what_had_none(filled, capsys):
    assert main(["bank", "list"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 policies and 1 without a faster one in ")
    assert "aten_native" in out
    assert main(["bank", "list", "softmax"]) == 0
    assert capsys.readouterr().out.startswith("0 policies and 0 without")


def test_show_takes_the_beginning_of_a_key(filled, capsys):
    key = task_of(mm_row()).key
    assert main(["bank", "show", key[:8]]) == 0
    out = capsys.readouterr().out
    assert key in out
    assert "95 % interval" in out
    assert main(["bank", "show", "x"]) == 2
    assert "no operator of the bank has it" in capsys.readouterr().err
    assert main(["bank", "show", "", "--json"]) == 2
    assert "2 operators of the bank have it" in capsys.readouterr().err


def test_why_miss_answers_for_every_operator_of_a_recording(filled, capsys):
    assert main(["bank", "why-miss", "recording", "--json"]) == 0
    lookups = json.loads(capsys.readouterr().out)["lookups"]
    assert {one["name"]: one["status"] for one in lookups} == {
        "fc/mm_OPAT_0": "hit",
        "pool/avg_pool2d_OPAT_0": "miss",
    }
    assert main(["bank", "why-miss", "recording", "pool"]) == 0
    out = capsys.readouterr().out
    assert "knows 0 of 1 operators" in out
    assert "it was never tuned" in out


def test_why_miss_says_what_tune_would_take_from_the_layer_beneath(filled, capsys, monkeypatch):
    def status() -> str:
        assert main(["bank", "why-miss", "recording", "mm", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["lookups"]
        return found["status"]

    (filled / "own").mkdir()
    monkeypatch.setenv("JUMAR_BUILT_IN_BANK", str(filled / "bank"))
    monkeypatch.setenv("TUNE_BANK_PATH", str(filled / "own"))
    assert status() == "hit"
    assert list((filled / "own").iterdir()) == []
    own = Bank.open(filled / "own")
    assert status() == "hit"
    tried = [Tried(policy=NATIVE, outcome=measured(0.9))]
    own.remember_unsatisfied(task_of(mm_row()), this_machine(), "Impl", incumbent=(), min_gain=0.02, tried=tried)
    assert status() == "unsatisfied"
    own.close()


def test_export_writes_json_lines_and_replaces_nothing(filled, capsys):
    assert main(["bank", "export", "-o", "kb.json"]) == 0
    lines = [json.loads(line) for line in (filled / "kb.json").read_text("utf-8").splitlines()]
    assert [line["op"] for line in lines] == ["mm", "mm"]
    assert main(["bank", "export", "-o", "kb.json"]) == 2
    assert main(["bank", "export", "-o", "kb.json", "--force"]) == 0
    capsys.readouterr()


def test_looking_into_a_bank_that_is_not_there_makes_none(folder, capsys):
    assert main(["bank", "list"]) == 2
    assert "holds no bank" in capsys.readouterr().err
    assert list((folder / "bank").iterdir()) == []


def test_an_artefact_that_has_no_room_to_be_built_is_said_after_the_answer(folder, monkeypatch, capsys):
    def full(*asked):
        raise OSError(28, "No space left on device", "/tmp/jumar-freeze-1/model.bin")

    ended(monkeypatch, full, job_type=1)
    assert main(WITH_OUTPUT) == 2
    said = capsys.readouterr()
    assert "No graph was tuned" in said.out
    assert "net.jumar cannot be written" in said.err
    assert "Traceback" not in said.err


def test_weights_that_a_killed_run_left_behind_are_removed_by_the_next(tmp_path, monkeypatch):
    """A kill leaves nobody to clean up, and the weights of a model are gigabytes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("jumar.tune.search.tasks.source.model_source", lambda where, folder, **_: folder)
    left = tmp_path / "jumar-model-left"
    left.mkdir()
    (left / "weights.pt").touch()
    os.utime(left, (0, 0))
    with opened_model("net:make", "", None) as folder:
        assert [*tmp_path.iterdir()] == [folder]
    assert [*tmp_path.iterdir()] == []
