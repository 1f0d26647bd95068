"""The bank keeps the vendor's rules, never holds a stack nobody measured, and survives what users do to it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tune_builders import MACHINE, gain, measured, mm_task

from jumar.base.errors import UsageError
from jumar.tune.bank.entry import Tried, stack_of
from jumar.tune.bank.exchange import export_lines
from jumar.tune.bank.location import bank_place, built_in_place
from jumar.tune.bank.presence import look_up
from jumar.tune.bank.store import Bank
from jumar.tune.measure.conditions.settings import repeat_tune
from jumar.tune.model.errors import BankError, NoBankError
from jumar.tune.model.task import Policy

HERE = Path(__file__).parents[1]
FORMAT = Policy(kind="Format", provider="channels_last")
IMPL = Policy(kind="Impl", provider="inductor")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE)}


def accept(bank: Bank, policy: Policy, incumbent=(), task=None, ratio=1.5):
    return bank.accept(
        task or mm_task(), MACHINE, policy, incumbent=incumbent, gain=gain(ratio), min_gain=0.02,
        tried=[Tried(policy=policy, outcome=measured(ratio))],
    )  # fmt: skip


def forget(bank: Bank, kind="Impl", task=None):
    tried = [Tried(policy=IMPL, outcome=measured(0.9))]
    bank.remember_unsatisfied(task or mm_task(), MACHINE, kind, incumbent=(), min_gain=0.02, tried=tried)


@pytest.fixture
def bank(tmp_path):
    return Bank.open(tmp_path)


def test_a_first_policy_is_added_and_a_second_of_its_kind_updates_it(bank):
    assert accept(bank, FORMAT) == "add"
    assert accept(bank, replace(FORMAT, provider="contiguous"), incumbent=(FORMAT,)) == "update"
    assert bank.slots(mm_task(), MACHINE)["Format"].policy.provider == "contiguous"


def test_everything_that_was_measured_comes_back(bank):
    accept(bank, FORMAT, ratio=1.7)
    entry = Bank.open(Path(bank.name).parent).slots(mm_task(), MACHINE)["Format"]
    assert (entry.task, entry.machine, entry.policy, entry.gain) == (mm_task(), MACHINE, FORMAT, gain(1.7))
    assert entry.tried == (Tried(policy=FORMAT, outcome=measured(1.7)),)
    assert json.loads(json.dumps(entry.to_json()))["policy"]["provider"] == "channels_last"


def test_a_policy_measured_on_another_stack_than_the_banks_is_refused(bank):
    assert accept(bank, FORMAT) == "add"
    assert accept(bank, IMPL, incumbent=()) is None
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (FORMAT,)
    assert accept(bank, IMPL, incumbent=(FORMAT,)) == "add"


def test_unsatisfied_is_remembered_and_never_replaces_a_policy(bank):
    forget(bank)
    assert bank.slots(mm_task(), MACHINE)["Impl"].policy is None
    assert accept(bank, IMPL) == "add"
    forget(bank)
    assert bank.slots(mm_task(), MACHINE)["Impl"].policy == IMPL


def test_another_machine_or_version_is_another_key(bank):
    accept(bank, FORMAT)
    for other in (replace(MACHINE, torch="2.14.0"), replace(MACHINE, num_threads=4)):
        assert bank.slots(mm_task(), other) == {}


def test_a_bank_of_a_newer_schema_is_one_sentence(bank):
    with sqlite3.connect(Path(bank.name)) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    with pytest.raises(BankError, match=r"has schema 99 and this Jumar reads up to 2\. Update Jumar"):
        Bank.open(Path(bank.name).parent)


def test_a_bank_of_the_first_schema_is_read(tmp_path):
    """`bank_v1.sql` is a bank as the first version wrote it; it stays as it is when the schema moves on."""
    with sqlite3.connect(tmp_path / "jumar_tune_bank.sqlite3") as connection:
        connection.executescript((HERE / "bank_v1.sql").read_text("utf-8"))
    entries = Bank.open(tmp_path, create=False).entries()
    assert [(entry.kind, entry.policy) for entry in entries] == [("Impl", None), ("Format", FORMAT)]
    assert [entry.task.key for entry in entries] == [mm_task().key] * 2
    assert entries[1].gain.clears(0.02)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look like something", b"SQLite format 3"]
)
def test_a_file_that_is_no_database_is_one_sentence(tmp_path, content):
    (tmp_path / "jumar_tune_bank.sqlite3").write_bytes(content * 100)
    with pytest.raises(BankError, match="damaged or no bank"):
        Bank.open(tmp_path)


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "jumar_tune_bank.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(BankError, match="no bank of Jumar"):
        Bank.open(tmp_path)
    assert path.read_bytes() == before


def test_no_bank_is_made_by_looking_for_one(tmp_path):
    with pytest.raises(BankError, match="holds no bank"):
        Bank.open(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_bank_can_be_read_and_says_that_it_cannot_be_written(bank):
    accept(bank, FORMAT)
    Path(bank.name).chmod(0o444)
    Path(bank.name).parent.chmod(0o555)
    try:
        again = Bank.open(Path(bank.name).parent)
        assert len(again.entries()) == 1
        with pytest.raises(BankError, match="cannot be used"):
            forget(again)
    finally:
        Path(bank.name).parent.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
@pytest.mark.parametrize("folder_mode", [0o755, 0o555])
def test_a_read_only_bank_is_noticed_before_anything_is_written(bank, folder_mode):
    path = Path(bank.name)
    path.chmod(0o444 if folder_mode == 0o755 else 0o644)
    path.parent.chmod(folder_mode)
    try:
        with pytest.raises(BankError, match=r"cannot be used.*Check its permissions"):
            bank.check_writable()
    finally:
        path.parent.chmod(0o755)


UNWRITABLE = """
import resource, signal, sys
from pathlib import Path
from jumar.tune.bank.store import Bank
from jumar.tune.model.errors import BankError, NoBankError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
bank = Bank.open(Path(sys.argv[1]))
bank.check_writable()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    bank.check_writable()
except BankError as error:
    sys.exit(0 if "the disk's space" in str(error) else 4)
sys.exit(3)
"""


def test_whether_a_bank_can_be_written_is_found_out_without_changing_it(bank):
    """A limit on the size of files does what a full disk does, at the same place."""
    accept(bank, FORMAT)
    before = Path(bank.name).read_bytes()
    command = [sys.executable, "-c", UNWRITABLE, str(Path(bank.name).parent)]
    assert subprocess.run(command, check=False).returncode == 0
    assert Path(bank.name).read_bytes() == before


WRITER = """
import sys
from pathlib import Path
from tune_builders import MACHINE, gain, measured, mm_task
from jumar.tune.bank.entry import Tried; from jumar.tune.bank.store import Bank
from jumar.tune.model.task import Policy
bank, first, count = Bank.open(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
policy = Policy(kind="Format", provider="channels_last")
for number in range(first, first + count):
    task = mm_task(number)
    bank.accept(task, MACHINE, policy, incumbent=(), gain=gain(1.5), min_gain=0.02,
                tried=[Tried(policy=policy, outcome=measured(1.5))] * 20)
    print(task.key, flush=True)
"""


def writer(folder: Path, first: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    writers = [writer(tmp_path, 1 + 20 * number, 20) for number in range(3)]
    said = [line.strip() for one in writers for line in one.communicate(timeout=120)[0].splitlines()]
    assert [one.returncode for one in writers] == [0, 0, 0]
    assert {entry.task.key for entry in Bank.open(tmp_path).entries()} == set(said)
    assert len(said) == 60


def test_a_kill_at_any_moment_loses_nothing_that_was_said_to_be_written(tmp_path):
    said: list[str] = []
    for round_number in range(3):
        one = writer(tmp_path, 1 + 1000 * round_number, 1000)
        said.append(one.stdout.readline().strip())
        time.sleep(0.05 + 0.06 * round_number)
        one.send_signal(signal.SIGKILL)
        said += [line.strip() for line in one.stdout if line.endswith("\n")]
        one.wait()
        one.stdout.close()
    with sqlite3.connect(tmp_path / "jumar_tune_bank.sqlite3") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = {entry.task.key for entry in Bank.open(tmp_path).entries()}
    assert set(said) <= kept
    assert len(kept - set(said)) <= 3  # committed, and killed before saying so


def test_the_place_of_the_bank_follows_the_documented_order(tmp_path):
    named, cache, data = (tmp_path / name for name in ("named", "cache", "data"))
    named.mkdir()
    environ = {"TUNE_BANK_PATH": str(named), "ASCEND_CACHE_PATH": str(cache), "XDG_DATA_HOME": str(data)}
    assert bank_place(str(tmp_path), environ) == tmp_path
    assert bank_place(None, environ) == named
    del environ["TUNE_BANK_PATH"]
    assert bank_place(None, environ) == cache / "aoe_data"
    del environ["ASCEND_CACHE_PATH"]
    assert bank_place(None, environ) == data / "jumar"


@pytest.mark.parametrize("name", ["ASCEND_CACHE_PATH", "XDG_DATA_HOME"])
def test_a_folder_is_made_by_who_writes_and_not_by_a_look(tmp_path, name):
    environ = {name: str(tmp_path / "mistyped")}
    place = bank_place(None, environ)
    assert not (tmp_path / "mistyped").exists()
    with pytest.raises(NoBankError, match="holds no bank"):
        Bank.open(place, create=False)
    assert bank_place(None, environ, writing=True) == place
    assert place.is_dir()


def test_a_place_that_is_named_must_exist(tmp_path):
    with pytest.raises(BankError, match="TUNE_BANK_PATH must be an existing folder"):
        bank_place(None, {"TUNE_BANK_PATH": str(tmp_path / "absent")})
    (tmp_path / "file").touch()
    with pytest.raises(BankError, match="cannot be made"):
        bank_place(None, {"XDG_DATA_HOME": str(tmp_path / "file")}, writing=True)


NOBODY = "~nobody-of-this-name/bank"


@pytest.mark.parametrize("name", ["TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "XDG_DATA_HOME"])
def test_a_home_folder_that_nobody_knows_is_one_sentence(name):
    with pytest.raises(BankError, match=rf"^{name} must begin with a home folder that is known.*; got {NOBODY}\."):
        bank_place(None, {name: NOBODY})
    with pytest.raises(BankError, match=r"^--bank must begin with a home folder"):
        bank_place(NOBODY, {})
    with pytest.raises(BankError, match=r"^JUMAR_BUILT_IN_BANK must begin with a home folder"):
        built_in_place({"JUMAR_BUILT_IN_BANK": NOBODY})


def test_without_a_home_folder_the_default_place_is_one_sentence(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(BankError, match=r"neither is known\. Set XDG_DATA_HOME"):
        bank_place(None, {})


@pytest.mark.parametrize(
    ("text", "value"), [("True", True), ("true", True), ("1", True), ("False", False), ("", False)]
)
def test_repeat_tune_is_true_or_false(text, value):
    assert repeat_tune({"REPEAT_TUNE": text}) is value
    assert repeat_tune({}) is False
    with pytest.raises(UsageError, match='got "Maybe"'):
        repeat_tune({"REPEAT_TUNE": "Maybe"})


def test_why_miss_names_the_property_that_differs(bank):
    accept(bank, FORMAT, task=mm_task(16))
    accept(bank, FORMAT, task=mm_task(32))
    entries = bank.entries()
    assert look_up(mm_task(16), MACHINE, entries).status == "hit"
    other = look_up(mm_task(16), replace(MACHINE, torch="2.14.0"), entries)
    assert (other.status, [(one.name, one.asked, one.in_bank) for one in other.differences]) == (
        "miss",
        [("torch", "2.14.0", "2.13.0")],
    )
    tensors = mm_task(16).tensors
    turned = replace(mm_task(16), tensors={**tensors, "self": replace(tensors["self"], stride=(1, 16))})
    reason = look_up(turned, MACHINE, entries).reason
    assert reason == "The nearest entry differs: stride of self is [1, 16] here and [8, 1] in the bank."
    absent = replace(mm_task(16), operator="aten::bmm")
    assert look_up(absent, MACHINE, entries).reason == "The bank has no entry of aten::bmm: it was never tuned."


def test_why_miss_says_when_it_was_tuned_for_nothing(bank):
    forget(bank)
    found = look_up(mm_task(), MACHINE, bank.entries())
    assert found.status == "unsatisfied"
    assert found.reason == "It was tuned and nothing was faster by 2 % or more: inductor."


def test_export_writes_a_json_line_for_each_policy_and_none_for_unsatisfied(bank):
    accept(bank, FORMAT)
    forget(bank)
    (line,) = map(json.loads, export_lines(bank.entries()))
    assert set(line) == {"id", "op", "version", "info_dict", "knowledge"}
    assert (line["op"], line["version"], line["knowledge"]["provider"]) == ("mm", 0, "channels_last")
    assert 0 <= line["id"] < 2**32
    assert line["info_dict"]["machine"]["device"] == "cpu"
