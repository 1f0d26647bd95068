"""The planted bottlenecks are found, and the clean loops are not accused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from planted import FAULTS, MODELS, cases, profile

from jumar.advise.look import look
from jumar.base.findings import Finding, Severity
from jumar.capture.profile import window

pytestmark = pytest.mark.slow

TRIES = 4
"""A busy machine makes stalls of its own, which are rightly found: a clean loop counts as accused when it always is."""


def advice(path: Path) -> Sequence[Finding]:
    (found,) = look(path)
    assert not found.warnings
    return [finding for finding in found.findings if finding.severity > Severity.INFO]


@pytest.mark.parametrize(("fault", "model", "code"), list(cases()))
def test_a_planted_bottleneck_is_found(fault: str, model: str, code: str, tmp_path: Path) -> None:
    for _ in range(TRIES):
        found = advice(profile(tmp_path / "trace.json", model, FAULTS[fault][0]))
        if code in [finding.code for finding in found]:
            break
    (finding,) = [finding for finding in found if finding.code == code]
    assert float(str(finding.evidence["saves_at_most_ms_per_step"])) > 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [("garbage collected in each step", "JM423"), ("slow samples in a worker", "JM421"), ("float64", "JM427")],
)
def test_it_is_found_in_a_profile_of_jumars(
    fault: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "runs_on_npu", lambda: False)  # an earlier test may have brought the emulated one up
    found = advice(profile(tmp_path / "prof", "perceptron", FAULTS[fault][0], by_jumar=True))
    assert code in [finding.code for finding in found]


@pytest.mark.parametrize("model", MODELS)
def test_a_clean_loop_is_not_accused(model: str, tmp_path: Path) -> None:
    accused = [[finding.code for finding in advice(profile(tmp_path / "trace.json", model))]]
    while accused[-1] and len(accused) < TRIES:
        accused.append([finding.code for finding in advice(profile(tmp_path / "trace.json", model))])
    assert not set.intersection(*map(set, accused))
