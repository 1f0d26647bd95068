"""A bank that a team shares keeps the rules of a file: the same tests on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from servers import missing, server
from tune_builders import MACHINE, gain, measured, mm_task

from jumar.tune.bank.entry import Tried, stack_of
from jumar.tune.bank.exchange import export_lines, import_lines
from jumar.tune.bank.location import FILE_NAME
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.bank.rows import Base
from jumar.tune.bank.store import Bank
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.errors import BankError
from jumar.tune.model.task import Policy
from jumar.tune.plan import Plan, Region

HERE = Path(__file__).parents[1]
FORMAT = Policy(kind="Format", provider="channels_last")
IMPL = Policy(kind="Impl", provider="inductor")


def accept(bank: Bank, policy: Policy = FORMAT, incumbent=(), size=4, ratio=1.5):
    return bank.accept(
        mm_task(size), MACHINE, policy, incumbent=incumbent, gain=gain(ratio), min_gain=0.02,
        tried=[Tried(policy=policy, outcome=measured(ratio))],
    )  # fmt: skip


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with server() as url:
        yield url


@pytest.fixture
def database(postgresql) -> Iterator[str]:
    """The URL of a server's database, which is empty again afterwards."""
    yield postgresql
    engine = sa.create_engine(postgresql)
    Base.metadata.drop_all(engine)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path) -> Iterator[Path | str]:
    if request.param == "sqlite":
        yield tmp_path
        return
    yield request.getfixturevalue("database")


def test_what_is_accepted_comes_back(place) -> None:
    bank = Bank.open(place)
    assert accept(bank) == "add"
    bank.close()
    again = Bank.open(place, create=False)
    entry = again.slots(mm_task(), MACHINE)["Format"]
    assert (entry.task, entry.machine, entry.policy, entry.gain) == (mm_task(), MACHINE, FORMAT, gain(1.5))
    again.close()


def test_numbers_that_json_has_not_come_back(place) -> None:
    """A candidate that returns NaN where the operator has none has an infinite error; a mask is -inf in places."""
    bank = Bank.open(place)
    mask = replace(mm_task().tensors["self"], minimum=float("-inf"))
    task = replace(mm_task(), tensors={**mm_task().tensors, "self": mask}, arguments={"value": float("-inf")})
    lost = [
        Tried(policy=policy, outcome=Outcome(status="disagrees", phase="candidate", worst_error=error))
        for policy, error in ((FORMAT, float("inf")), (IMPL, float("nan")))
    ]
    bank.remember_unsatisfied(task, MACHINE, "Format", incumbent=(), min_gain=0.02, tried=lost)
    entry = bank.slots(task, MACHINE)["Format"]
    assert entry.task == task
    assert entry.task.tensors["self"].minimum == float("-inf")
    assert [str(one.outcome.worst_error) for one in entry.tried] == ["inf", "nan"]
    assert bank.problems() == []
    bank.close()


def test_a_policy_measured_on_another_stack_than_the_banks_is_refused(place) -> None:
    bank = Bank.open(place)
    assert [accept(bank), accept(bank, IMPL), accept(bank, IMPL, (FORMAT,))] == ["add", None, "add"]
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (FORMAT, IMPL)
    bank.close()


def test_looking_for_a_bank_makes_none(place) -> None:
    with pytest.raises(BankError, match="holds no bank"):
        Bank.open(place, create=False)


def test_what_is_read_of_a_server_is_of_one_moment(database) -> None:
    bank, other = Bank.open(database), Bank.open(database)
    accept(bank)
    count = sa.text("SELECT count(*) FROM slots")
    with bank._database.reading() as session:
        before = session.execute(count).scalar()
        accept(other, size=5)
        assert session.execute(count).scalar() == before
    assert len(bank.entries()) == before + 1
    other.close()
    bank.close()


WRITER = """
import sys
from pathlib import Path
from tune_builders import MACHINE, gain, measured, mm_task
from jumar.tune.bank.store import Bank
from jumar.tune.plan import Plan, Region
from jumar.tune.model.task import Policy
place = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
policy = Policy(kind="Format", provider=sys.argv[2])
bank = Bank.open(place)
for size in range(1, 21):
    print(bank.accept(mm_task(size), MACHINE, policy, incumbent=(), gain=gain(1.5), min_gain=0.02, tried=[]))
"""


def test_of_writers_at_the_same_time_exactly_one_adds_each_policy(place) -> None:
    """Also the tables are made by all of them at once."""
    commands = [[sys.executable, "-c", WRITER, str(place), f"provider{number}"] for number in range(3)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    processes = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True, env=environment) for one in commands]
    said = [one.communicate(timeout=120)[0].split() for one in processes]
    assert [one.returncode for one in processes] == [0, 0, 0]
    assert [sorted(answers) for answers in zip(*said, strict=True)] == [["None", "None", "add"]] * 20
    bank = Bank.open(place)
    assert len(bank.entries()) == 20
    bank.close()


def test_a_bank_of_a_newer_schema_is_one_sentence(place) -> None:
    bank = Bank.open(place)
    with bank._database.writing() as session:
        session.execute(sa.text("UPDATE meta SET value = '99' WHERE name = 'schema_version'"))
    bank.close()
    with pytest.raises(BankError, match=r"has schema 99 and this Jumar reads up to 2\. Update Jumar"):
        Bank.open(place)


def engine_of(place: Path | str) -> sa.Engine:
    is_file = isinstance(place, Path)
    return sa.create_engine(sa.URL.create("sqlite", database=str(place / FILE_NAME)) if is_file else place)


def first_version(place: Path | str) -> None:
    """Make `bank_v1.sql`, a bank as the first version wrote it, at `place`: its tables and its rows."""
    Bank.open(place).close()
    source = sqlite3.connect(":memory:")
    source.executescript((HERE / "bank_v1.sql").read_text("utf-8"))
    engine = engine_of(place)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP INDEX ix_tasks_structure"))
        connection.execute(sa.text("ALTER TABLE tasks DROP COLUMN structure"))
        connection.execute(sa.text("DELETE FROM meta"))
        connection.execute(sa.text("DROP TABLE precisions"))
        for table in Base.metadata.sorted_tables:
            if table.name == "precisions":  # came later
                continue
            rows = source.execute(f"SELECT * FROM {table.name}")
            names = [column[0] for column in rows.description if column[0] != "id"]
            places = ", ".join(f":{name}" for name in names)
            insert = sa.text(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places})")
            for row in rows:
                known = dict(zip([column[0] for column in rows.description], row, strict=True))
                connection.execute(insert, {name: known[name] for name in names})
    engine.dispose()
    source.close()


def test_a_bank_of_the_first_version_is_read_and_migrated_when_it_is_written_to(place) -> None:
    first_version(place)
    bank = Bank.open(place, create=False)
    assert bank.slots(mm_task(), MACHINE)["Format"].policy == FORMAT, "looking changes nothing"
    assert "structure" not in columns_of(place, "tasks")
    assert accept(bank, size=16) == "add"
    assert "structure" in columns_of(place, "tasks")
    (near,) = bank.nearest(mm_task(8), MACHINE)[:1]
    assert near.stack[:1] == (FORMAT,), "tasks of the first version have a structure now"
    assert {entry.task.key for entry in bank.entries()} == {mm_task().key, mm_task(16).key}
    assert bank.precisions() == []
    bank.keep_precision(precision())
    assert bank.precisions() == [precision()]
    bank.close()
    again = Bank.open(place, create=False)
    assert accept(again, IMPL, (FORMAT,), size=16) == "add"
    again.close()


def precision() -> KnownPrecision:
    asked = AskedPrecision(task=mm_task(), machine=MACHINE, weights="w", budget=1e-2)
    plan = Plan(regions=(Region(nodes=(), engine="eager"),))
    return KnownPrecision(asked=asked, error=5e-3, plan=plan, gain=gain(1.5), updated="2026-01-01T00:00:00.000+00:00")


def columns_of(place: Path | str, table: str) -> set[str]:
    engine = engine_of(place)
    found = {column["name"] for column in sa.inspect(engine).get_columns(table)}
    engine.dispose()
    return found


def test_merging_keeps_the_better_stack_whole(place, tmp_path) -> None:
    mine, theirs = Bank.open(place), Bank.open(_folder(tmp_path, "theirs"))
    accept(mine, ratio=1.2)
    accept(mine, size=5, ratio=1.9)
    for size in (4, 5, 6):
        accept(theirs, IMPL, size=size, ratio=1.5)
    counts = mine.merge(theirs.entries())
    assert (counts.num_added, counts.num_better, counts.num_kept) == (1, 1, 1)
    stacks = {size: stack_of(list(mine.slots(mm_task(size), MACHINE).values())) for size in (4, 5, 6)}
    assert stacks == {4: (IMPL,), 5: (FORMAT,), 6: (IMPL,)}
    assert mine.merge(theirs.entries()).num_kept == 3
    mine.close()
    theirs.close()


CONTIGUOUS = Policy(kind="Format", provider="contiguous")


def improved(folder: Path) -> Bank:
    """Return a bank in which a policy that gains 1.5 was replaced by one that gains 1.1 more."""
    bank = Bank.open(folder)
    assert [accept(bank), accept(bank, CONTIGUOUS, (FORMAT,), ratio=1.1)] == ["add", "update"]
    return bank


def test_merging_does_not_bring_back_what_was_replaced(place, tmp_path) -> None:
    mine, theirs = Bank.open(place), Bank.open(_folder(tmp_path, "theirs"))
    better = improved(_folder(tmp_path, "better"))
    accept(theirs)
    mine.merge(theirs.entries())
    assert mine.merge(better.entries()).num_better == 1
    assert mine.merge(theirs.entries()).num_kept == 1
    assert stack_of(list(mine.slots(mm_task(), MACHINE).values())) == (CONTIGUOUS,)
    for bank in (mine, theirs, better):
        bank.close()


@pytest.mark.parametrize(("ratio", "kept"), [(1.3, CONTIGUOUS), (1.8, IMPL)])
def test_what_a_policy_replaced_counts_for_what_it_is_worth(place, tmp_path, ratio, kept) -> None:
    better, others = improved(_folder(tmp_path, "better")), Bank.open(_folder(tmp_path, "others"))
    accept(others, IMPL, ratio=ratio)
    bank = Bank.open(place)
    bank.merge(import_lines(export_lines(better.entries()), "lines"))
    bank.merge(others.entries())
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (kept,)
    for one in (bank, better, others):
        one.close()


def test_what_beat_the_layer_beneath_is_not_left_to_it(place, tmp_path) -> None:
    built_in, better = Bank.open(_folder(tmp_path, "built-in")), improved(_folder(tmp_path, "better"))
    accept(built_in)
    bank = Bank.open(place, beneath=built_in)
    without_history = [replace(entry, tried=()) for entry in better.entries()]
    assert bank.merge(without_history).num_added == 1
    better.close()
    bank.close()


def test_pruning_removes_whole_tasks_and_what_only_they_used(place) -> None:
    bank = Bank.open(place)
    accept(bank)
    accept(bank, size=5)
    bank.remember_unsatisfied(mm_task(5), MACHINE, "Impl", incumbent=(FORMAT,), min_gain=0.02, tried=[])
    bank.remember_unsatisfied(
        mm_task(6), replace(MACHINE, torch="2.12.0"), "Impl", incumbent=(), min_gain=0.02, tried=[]
    )
    assert [entry.task for entry in bank.prune(lambda entry: entry.policy is None, dry_run=True)] == [mm_task(6)]
    assert len(bank.entries()) == 4
    bank.prune(lambda entry: entry.policy is None)
    assert sorted(entry.task.tensors["self"].shape[0] for entry in bank.entries()) == [4, 5, 5]
    with bank._database.reading() as session:
        assert session.execute(sa.text("SELECT count(*) FROM machines")).scalar() == 1
    bank.close()


def test_a_layer_beneath_answers_until_the_task_is_known_and_is_never_written(place, tmp_path) -> None:
    folder = _folder(tmp_path, "built-in")
    built_in = Bank.open(folder)
    accept(built_in)
    bank = Bank.open(place, beneath=built_in)
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (FORMAT,)
    assert accept(bank, IMPL) is None
    assert accept(bank, IMPL, (FORMAT,)) == "add"
    assert stack_of(list(bank.slots(mm_task(), MACHINE).values())) == (FORMAT, IMPL)
    assert [entry.kind for entry in built_in.entries()] == ["Format"]
    bank.close()
    alone = Bank.open(place)
    assert stack_of(list(alone.slots(mm_task(), MACHINE).values())) == (FORMAT, IMPL)
    alone.close()


def test_merging_leaves_to_the_layer_beneath_what_is_no_better(place, tmp_path) -> None:
    built_in, theirs = (Bank.open(_folder(tmp_path, name)) for name in ("built-in", "theirs"))
    accept(built_in, ratio=1.5)
    accept(theirs, IMPL, ratio=1.4)
    accept(theirs, IMPL, size=5, ratio=1.4)
    bank = Bank.open(place, beneath=built_in)
    counts = bank.merge(theirs.entries())
    assert (counts.num_built_in, counts.num_added) == (1, 1)
    assert [entry.task for entry in bank.entries()] == [mm_task(5)]
    theirs.close()
    bank.close()


def test_problems_name_entries_that_were_tampered_with(place) -> None:
    bank = Bank.open(place)
    accept(bank)
    accept(bank, size=5)
    assert bank.problems() == []
    with bank._database.writing() as session:
        session.execute(sa.text("UPDATE slots SET min_gain = 3.0 WHERE id = (SELECT min(id) FROM slots)"))
        session.execute(sa.text("UPDATE slots SET base = '[{}]' WHERE id = (SELECT max(id) FROM slots)"))
    problems = bank.problems()
    assert any("has no measurement that clears its gate" in problem for problem in problems)
    assert any("cannot be read: KeyError" in problem for problem in problems)
    assert len(problems) == 2
    bank.close()


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nonsense://x/y", '"nonsense://x/y" must be a folder or a URL such as postgresql'),
        ("sqlite:////tmp/x", "must not name SQLite by URL. Name the folder of its file instead."),
        ("postgresql+absent://me:secret@host/bank", '"postgresql+absent://host/bank" must be a folder or a URL'),
    ],
)
def test_a_place_that_is_none_is_one_sentence(place, sentence) -> None:
    with pytest.raises(BankError) as error:
        Bank.open(place)
    assert sentence in str(error.value)
    assert "secret" not in str(error.value)


@pytest.fixture
def reader(database) -> Iterator[str]:
    """The URL of a bank for a role that may read it and nothing else."""
    Bank.open(database).close()
    executed(database, "CREATE ROLE reader LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    yield database.replace("jumar@", "reader@")
    executed(database, "DROP OWNED BY reader", "DROP ROLE reader")


def executed(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], "permission denied"),
        (
            [
                "GRANT ALL ON ALL TABLES IN SCHEMA public TO reader",
                "ALTER ROLE reader SET default_transaction_read_only = on",
            ],
            "read-only transaction",
        ),
    ],
)
def test_a_server_that_may_be_read_only_is_not_called_damaged(database, reader, changes, said) -> None:
    executed(database, *changes)
    bank = Bank.open(reader)
    assert bank.entries() == []
    for attempt in (bank.check_writable, lambda: accept(bank)):
        with pytest.raises(BankError) as error:
            attempt()
        assert "cannot be used" in str(error.value)
        assert said in str(error.value)
        assert str(error.value).endswith("Check that the server runs, takes you in, and lets you write.")
    bank.close()


def test_a_process_that_looked_into_the_bank_holds_no_connection(database) -> None:
    bank = Bank.open(database)
    accept(bank)
    asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    engine = sa.create_engine(database)
    deadline = time.monotonic() + 10
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        while (num_open := connection.scalar(sa.text(asked))) and time.monotonic() < deadline:
            time.sleep(0.05)  # the server notices that a connection was closed
    engine.dispose()
    assert num_open == 0
    assert accept(bank, IMPL, (FORMAT,)) == "add"
    bank.close()


def test_a_server_that_does_not_answer_is_one_sentence_without_the_password(tmp_path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(BankError) as error:
        Bank.open(f"postgresql+psycopg://me:secret@/bank?host={tmp_path}")
    text = str(error.value)
    assert text.startswith("postgresql+psycopg://me:***@/bank")
    assert text.endswith("Check that the server runs, takes you in, and lets you write.")
    assert "secret" not in text


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder
