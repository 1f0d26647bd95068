"""What `jumar doctor --fix` does, shows and takes back; a crash between leaves the script right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hosts import LAPTOP, NPU_SERVER, with_environ

from jumar.advise.doctor import examine
from jumar.advise.doctor.fixes import Move, Remount, Setting, Variables, make, propose
from jumar.advise.doctor.fixes.variables import commands_in
from jumar.advise.doctor.machine.host import Host, Volume
from jumar.base.errors import OutputError
from jumar.base.findings import Finding, Severity
from jumar.base.text import GIB, MIB

NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=timezone.utc)


def lay_out(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def slow_machine(root: Path) -> Host:
    """A server whose governor, huge pages and ports are not as they should be."""
    cores = {f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in range(4)}
    others = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "proc/sys/net/ipv4/ip_local_reserved_ports": "\n",
    }
    lay_out(root, **cores, **others)
    host = replace(
        NPU_SERVER,
        governors={"powersave": 4},
        kernel=replace(NPU_SERVER.kernel, huge_pages="never", reserved_ports=()),
    )
    return with_environ(host, WORLD_SIZE="2", ASCEND_RT_VISIBLE_DEVICES="1,0")


def sh(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)


def contents(root: Path) -> dict[str, str]:
    files = (file for file in root.rglob("*") if file.is_file() and "jumar-doctor" not in file.name)
    return {str(file.relative_to(root)): file.read_text().strip() for file in files}


def test_each_change_shows_its_file_with_the_old_and_the_new_value(tmp_path):
    host = slow_machine(tmp_path)
    changes = propose(host, examine(host).findings, folder=tmp_path, root=tmp_path).changes
    shown = [line for change in changes for line in change.lines()]
    governor = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    assert f"{governor}: powersave → performance  (and 3 more files)" in shown
    assert f"{tmp_path}/sys/kernel/mm/transparent_hugepage/enabled: never → always" in shown
    assert f"{tmp_path}/proc/sys/net/ipv4/ip_local_reserved_ports: (empty) → 60000-60031" in shown
    assert "    export ASCEND_RT_VISIBLE_DEVICES=0,1" in shown


def test_the_script_takes_everything_back(tmp_path):
    host = slow_machine(tmp_path)
    before = contents(tmp_path)
    made = make(propose(host, examine(host).findings, folder=tmp_path, root=tmp_path).changes, tmp_path)
    assert contents(tmp_path) != before
    assert not made.failed
    assert made.undo is not None
    assert sh(made.undo).returncode == 0
    after = contents(tmp_path)
    after["sys/kernel/mm/transparent_hugepage/enabled"] = before["sys/kernel/mm/transparent_hugepage/enabled"]
    assert after == before  # the kernel writes the other choices beside `never` itself
    assert (tmp_path / "sys/kernel/mm/transparent_hugepage/enabled").read_text() == "never\n"


@pytest.mark.parametrize("num_made", range(5))
def test_after_a_crash_at_any_change_the_script_is_there_and_right(tmp_path, num_made):
    """The process is really killed, between two changes."""
    paths = [tmp_path / f"value{n}" for n in range(4)]
    for path in paths:
        path.write_text("old\n")
    program = f"""
import os, signal, sys
from pathlib import Path
from jumar.advise.doctor.fixes import Setting, make
count = 0
class Dies(Setting):
    def make(self, run):
        global count
        if count == {num_made}:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        super(Dies, self).make(run)
paths = [Path(p) for p in {[str(path) for path in paths]!r}]
make([Dies(title=str(p), code="JM812", new="new", old=((p, "old"),)) for p in paths], Path({str(tmp_path)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert (done.returncode == 0) == (num_made == 4)
    assert [path.read_text().strip() for path in paths] == ["new"] * num_made + ["old"] * (4 - num_made)
    (script,) = tmp_path.glob("jumar-doctor-undo-*.sh")
    assert sh(script).returncode == 0
    assert [path.read_text().strip() for path in paths] == ["old"] * 4


def test_where_the_script_cannot_be_written_nothing_is_changed(tmp_path):
    value = tmp_path / "value"
    value.write_text("old\n")
    with pytest.raises(OutputError, match="nothing was changed"):
        make([Setting(title="a", code="JM812", new="new", old=((value, "old"),))], tmp_path / "absent")
    assert value.read_text() == "old\n"


def test_a_change_that_fails_does_not_stop_the_others(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "absent" / "bad"
    good.write_text("old\n")
    changes = [
        Setting(title=name, code="JM812", new="new", old=((path, "old"),)) for name, path in (("b", bad), ("g", good))
    ]
    made = make(changes, tmp_path)
    assert [change.title for change, _ in made.failed] == ["b"]
    assert [change.title for change in made.made] == ["g"]
    assert good.read_text() == "new\n"


def test_shared_memory_is_made_larger_by_a_command_and_back(tmp_path):
    shared = Volume(path="/dev/shm", purpose="", total_bytes=64 * MIB, free_bytes=64 * MIB)
    host = replace(NPU_SERVER, shared_memory=shared)
    (change,) = propose(host, examine(host).findings, folder=tmp_path, root=tmp_path).changes
    assert isinstance(change, Remount)
    ran: list[Sequence[str]] = []
    make([change], tmp_path, run=ran.append)
    assert ran == [["mount", "-o", f"remount,size={16 * GIB}", "/dev/shm"]]
    assert change.undo() == [f"mount -o remount,size={64 * MIB} /dev/shm"]


def finding(action: str, code: str = "JM850", message: str = "It failed.") -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, action=action)


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        ("export OMP_NUM_THREADS=8", ["export OMP_NUM_THREADS=8"]),
        ("export A=1 B=2, then start again.", ["export A=1", "export B=2"]),
        ("export HCCL_ALGO='level0:ring;level1:pipeline'", ["export HCCL_ALGO='level0:ring;level1:pipeline'"]),
        ("unset SET; set OTHER", ["unset SET"]),
        ("unset UNKNOWN, or give it the number of cores.", []),
        ("Keep it if it was measured; else unset it.", []),
        ("export HCCL_IF_IP=ADDRESS", []),
        ("export ASCEND_CACHE_PATH=/path/to/cache", []),
        ("source /usr/local/Ascend/ascend-toolkit/set_env.sh", [". /usr/local/Ascend/ascend-toolkit/set_env.sh"]),
        ("rm -rf $HOME/atc_data; export X=$(rm -rf /)", []),
    ],
)
def test_lines_of_an_action_are_taken_where_they_are_plain(action, lines):
    assert [line for line, _ in commands_in(action, with_environ(LAPTOP, SET="1"))] == lines


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (
            "with much reserved memory set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; look.",
            ["export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"],
        ),
        ("Run with ASCEND_LAUNCH_BLOCKING=1.", ["export ASCEND_LAUNCH_BLOCKING=1"]),
        ("Set A_B=1 and C_D=x, or C_D=y.", ["export A_B=1", "export C_D=x"]),
        ("docker run -e ASCEND_VISIBLE_DEVICES=0, -DCMAKE_PREFIX_PATH=its", []),
        ("num_workers=0, batch_size=1, lr=1", []),
        (
            "export LD_LIBRARY_PATH=/x/lib64:$LD_LIBRARY_PATH.",
            ['export LD_LIBRARY_PATH=/x/lib64"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'],
        ),
    ],
)
def test_an_entry_of_a_known_error_names_variables_in_any_form(action, lines):
    assert [line for line, _ in commands_in(action, LAPTOP, loosely=True)] == lines


def test_sourcing_both_files_gives_back_the_old_environment(tmp_path):
    host = with_environ(LAPTOP, KEPT="it's", GONE="1")
    findings = [finding("export KEPT=new"), finding("export ADDED='a b'"), finding("unset GONE")]
    (change,) = propose(host, findings, folder=tmp_path).changes
    make([change], tmp_path)
    show = 'env | grep -E "^(KEPT|ADDED|GONE)=" | sort'
    script = f"cd {tmp_path}; . ./jumar-doctor-env.sh; {show}; echo --; . ./jumar-doctor-env-undo.sh; {show}"
    told = subprocess.run(
        ["sh", "-c", script],
        env={"PATH": os.environ["PATH"], "KEPT": "it's", "GONE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told == "ADDED=a b\nKEPT=new\n--\nGONE=1\nKEPT=it's\n"


def test_a_file_of_variables_that_was_there_comes_back(tmp_path):
    file = tmp_path / "jumar-doctor-env.sh"
    file.write_text("export MINE='1'\n")
    (change,) = propose(LAPTOP, [finding("export A=1")], folder=tmp_path).changes
    made = make([change], tmp_path)
    assert "export A=1" in file.read_text()
    assert made.undo is not None
    sh(made.undo)
    assert file.read_text() == "export MINE='1'\n"


def test_a_kernel_cache_is_moved_aside_only_where_an_error_names_it(tmp_path):
    cache = tmp_path / "atc_data" / "kernel_cache"
    cache.mkdir(parents=True)
    (cache / "kernel.o").write_text("x")
    host = with_environ(LAPTOP, HOME=str(tmp_path))
    assert propose(host, [finding("Wait.")], folder=tmp_path).changes == ()
    named = finding("Remove the kernel cache (~/atc_data) and start again.")
    (change,) = propose(host, [named], folder=tmp_path, now=NOW).changes
    assert isinstance(change, Move)
    made = make([change], tmp_path)
    assert not cache.exists()
    assert (change.aside / "kernel.o").read_text() == "x"
    assert made.undo is not None
    sh(made.undo)
    assert (cache / "kernel.o").read_text() == "x"


def test_a_lock_that_is_young_or_held_stays(tmp_path):
    import fcntl

    top = tmp_path / ".cache/torch_extensions/py311_cpu"
    old, young, held = (top / name / "lock" for name in ("old", "young", "held"))
    for path in (old, young, held):
        path.parent.mkdir(parents=True)
        path.write_text("")
    for path in (old, held):
        os.utime(path, (0, 0))
    host = with_environ(LAPTOP, HOME=str(tmp_path))
    with held.open("w") as handle:
        os.utime(held, (0, 0))
        fcntl.flock(handle, fcntl.LOCK_EX)
        changes = propose(host, [finding("Remove the stale lock file.")], folder=tmp_path, now=NOW).changes
    assert [change.path for change in changes if isinstance(change, Move)] == [old]


def test_what_a_process_has_open_stays(tmp_path):
    cache, lock = tmp_path / "atc_data/kernel_cache", tmp_path / ".cache/torch_extensions/lock"
    for path in (cache / "a.o", lock):
        path.parent.mkdir(parents=True)
        path.write_text("")
        os.utime(path, (0, 0))
    host = with_environ(LAPTOP, HOME=str(tmp_path))
    asked = [finding("Delete the kernel cache."), finding("Remove the lock file.")]
    for path, one in zip((cache / "a.o", lock), asked, strict=True):
        with path.open():
            assert propose(host, [one], folder=tmp_path, now=NOW).changes == ()
        assert len(propose(host, [one], folder=tmp_path, now=NOW).changes) == 1


def test_what_cannot_be_undone_is_left_with_a_reason(tmp_path):
    host = replace(NPU_SERVER, volumes=(Volume(path="/", purpose="temporary files", total_bytes=GIB, free_bytes=1),))
    proposal = propose(host, examine(host).findings, folder=tmp_path)
    assert proposal.changes == ()
    assert [(one.code, one.reason) for one in proposal.refusals] == [
        ("JM817", "it would delete files, and nothing brings them back")
    ]


@pytest.mark.parametrize("old", ["", "32768\t60999", 'it\'s "quoted"', "$(touch x); `id`", "%s\\n", "-n", "a\n b"])
def test_any_value_is_written_back_as_it_was(tmp_path, old):
    value = tmp_path / "a value"
    value.write_text(f"{old}\n")
    made = make([Setting(title="it's set", code="JM812", new="new", old=((value, old),))], tmp_path)
    assert value.read_text() == "new\n"
    assert made.undo is not None
    assert sh(made.undo).returncode == 0
    assert value.read_text() == f"{old}\n"


def run(tmp_path: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jumar", "doctor", "--fix", *words]
    settings = {"cwd": tmp_path, "env": {**os.environ, **environ}, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def test_without_a_terminal_and_yes_it_shows_and_refuses(tmp_path):
    done = run(tmp_path, ASCEND_RT_VISIBLE_DEVICES="1,0")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "export ASCEND_RT_VISIBLE_DEVICES=0,1" in done.stdout
    assert "Add --yes" in done.stderr


def test_with_yes_it_writes_the_file_and_the_script(tmp_path):
    done = run(tmp_path, "--yes", "--json", ASCEND_RT_VISIBLE_DEVICES="1,0")
    told = json.loads(done.stdout)
    assert all(change["made"] for change in told["changes"])
    assert (tmp_path / "jumar-doctor-env.sh").read_text().splitlines()[1] == "export ASCEND_RT_VISIBLE_DEVICES=0,1"
    assert sh(Path(told["undo_script"])).returncode == 0
    assert not (tmp_path / "jumar-doctor-env.sh").exists()
    assert Variables(path=Path("a.sh"), commands=()).undo_path == Path("a-undo.sh")
