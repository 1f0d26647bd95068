"""A model that ends, crashes or hangs while it is captured costs its own process, and is told in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import graph_models as models
import pytest

from jumar.base.errors import InputError
from jumar.tune.graph.capture.apart import captured_apart
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.data import load
from jumar.tune.graph.capture.source import load_graphs
from jumar.tune.model.errors import TuneError

NETS = """
import ctypes, os, subprocess, sys, threading, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, odd=None):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.odd = odd

    def forward(self, x):
        if self.odd is not None:
            self.odd()
        return self.layer(x).relu()

def net(odd=None):
    torch.manual_seed(0)
    return Net(odd), torch.ones(2, 4)

def plain():
    print("made")
    return net()

def exits(): return net(lambda: os._exit(0))
def crashes(): return net(lambda: ctypes.string_at(0))
def killed(): return net(lambda: os.kill(os.getpid(), 9))
def sleeps():
    print(f"pid {os.getpid()}", file=sys.stderr, flush=True)
    return net(lambda: time.sleep(600))
def waits(): threading.Thread(target=time.sleep, args=(600,)).start(); return net()
def starts(): subprocess.Popen(["sleep", "600"]); return net()
def reads(): input(); return net()
def raises(): return net(lambda: 1 / 0)
def nothing(): return 3
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    (tmp_path / "nets_apart.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("factory", [models.residual, models.writes, models.nests, models.not_a_number, models.random])
def test_a_captured_graph_is_the_same_after_json(tmp_path, factory):
    model, given, *words = factory()
    args = given if isinstance(given, tuple) else (given,)
    captured = graph_of_module(model, args, *words, folder=tmp_path)
    again = Captured.from_json(captured.to_json())
    assert again.to_json() == captured.to_json()
    assert (again.graph.key, again.data, again.findings) == (captured.graph.key, captured.data, captured.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "waits", "starts"])
def test_it_gives_what_this_process_would_capture(nets, name, capfd):
    (apart,) = captured_apart(f"nets_apart:{name}", folder=nets / "apart", limit_s=300)
    (here,) = load_graphs("nets_apart:plain", folder=nets / "here")
    assert apart.graph.key == here.graph.key
    values = [load(one.data) for one in (apart, here)]
    assert all(values[0][place].equal(values[1][place]) for place in values[0])
    assert "made" not in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("exits", TuneError, "ended with exit code 0"),
        ("crashes", TuneError, "was ended by SIGSEGV"),
        ("killed", TuneError, "was ended by SIGKILL, as the system does"),
        ("reads", TuneError, "EOF"),
        ("raises", TuneError, "ZeroDivisionError"),
        ("nothing", TuneError, "must return a model"),
        ("missing", InputError, "cannot be imported"),
    ],
)
def test_what_goes_wrong_is_one_sentence(nets, name, kind, sentence):
    with pytest.raises(kind, match=sentence) as error:
        captured_apart(f"nets_apart:{name}", folder=nets / "apart", limit_s=300)
    assert "\n" not in str(error.value)


def test_a_call_that_does_not_return_ends_with_the_time_budget(nets):
    with pytest.raises(TuneError, match="not captured within the time budget"):
        captured_apart("nets_apart:sleeps", folder=nets / "apart", limit_s=0.2)


@pytest.mark.slow
def test_nothing_outlives_a_tuner_that_was_killed(nets):
    code = "from jumar.tune.graph.capture.apart import captured_apart; from pathlib import Path; "
    code += "captured_apart('nets_apart:sleeps', folder=Path('apart'))"
    path = os.pathsep.join(sys.path)
    tuner = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    pid = next(int(line.split()[1]) for line in tuner.stderr if line.startswith("pid "))
    tuner.send_signal(signal.SIGKILL)
    tuner.wait()
    tuner.stderr.close()
    for _ in range(600):
        if not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            break
        time.sleep(0.1)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the process that captured is still there")
