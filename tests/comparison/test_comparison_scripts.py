"""Faults planted in training scripts, and healthy pairs of them: queues, teachers, GANs, replay, ranks, schedules.

Those marked `held_out` were written before the comparison was mended for the others, and looked at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scoreboard.scripts.cases import all_scripts
from scoreboard.scripts.knobs import Script
from scoreboard.scripts.runner import ScriptRunner


def known(script: Script) -> str:
    return f"{script.program.__name__} {script.name}"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> ScriptRunner:
    return ScriptRunner(tmp_path_factory.mktemp("scripts"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Device do not support double dtype")  # the NPU's warning, once a process
@pytest.mark.parametrize("script", [s for s in all_scripts() if not s.held_out], ids=known)
def test_the_planted_line_is_named_and_healthy_pairs_agree(runner: ScriptRunner, script: Script) -> None:
    result = runner.run(script)
    assert result.outcome == ("quiet" if script.healthy else "exact"), f"{result.answer} instead of {result.truth}"


def test_there_are_60_faults_and_40_healthy_pairs_with_a_third_held_out(tmp_path: Path) -> None:
    scripts = list(all_scripts())
    faults, healthy = ([s for s in scripts if s.healthy is flag] for flag in (False, True))
    assert (len(faults) >= 60, len(healthy) >= 40) == (True, True)
    assert sum(s.held_out for s in scripts) >= len(scripts) // 3
