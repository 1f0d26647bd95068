"""Plans in a process that was forked from the one that built them: computed or refused, and never waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKS = """
import os, signal, sys, traceback
from pathlib import Path

import torch
from plan_models import exported

from jumar.tune.plan.engines import ENGINES
from jumar.tune.engines.base import Site
from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.build import build, load

torch.set_grad_enabled(False)
name, folder = sys.argv[1], Path(sys.argv[2])
model, x = torch.nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8)
graph, weights = exported(model, x)
(engine,) = [one for one in ENGINES if one.name == name]
pieces = {"batch": (1, 1), "streams": 2} if name == "eager" else {}
plan = Plan(regions=(Region(nodes=(), engine=name, version=engine.version()),), **pieces)
site = Site(graph=graph, constants=weights, example=[x], folder=folder, num_threads=2)
function = build(plan, site)
(expected,) = function(x)
child = os.fork()
if not child:
    signal.alarm(60)
    try:
        if name != "eager":
            try:
                function(x)
            except TuneError as error:
                assert "was loaded before this process was forked" in str(error)
            else:
                os._exit(3)
            function = load(plan, site)
        (made,) = function(x)
        os._exit(0 if torch.allclose(made, expected) else 4)
    except BaseException:
        traceback.print_exc()
        os._exit(5)
sys.exit(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("engine", ["eager", "openvino"])
def test_a_forked_process_waits_for_no_thread_that_stayed_behind(tmp_path: Path, engine: str) -> None:
    """`eager` is computed in pieces at once, by threads of ours; OpenVINO has its own."""
    if engine != "eager":
        pytest.importorskip(engine)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])}
    command = [sys.executable, "-W", "ignore", "-c", FORKS, engine, str(tmp_path)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
