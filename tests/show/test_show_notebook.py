"""Results show themselves in a notebook: their page in a frame that needs no network."""

from __future__ import annotations

import html
import sys
from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.base.lazy import Shown
from jumar.show.notebook import _PAGES

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))
from tune_builders import MACHINE

from jumar.tune.search.outcome import TuneResult


def found(kind: type) -> list[type]:
    return [one for below in kind.__subclasses__() for one in (below, *found(below))]


def test_the_page_of_a_result_is_in_a_frame(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("all is <well>\n")
    logs = diagnose_logs([log])
    tuned = TuneResult(recording="r", recorded_device="cpu", machine=MACHINE, min_gain=0.02, wall_s=1.0)
    for result in (logs, tuned):
        text = result._repr_html_()
        assert text.startswith("<div><iframe")
        page = html.unescape(text.partition('srcdoc="')[2].rpartition('"></iframe>')[0])
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert "https://" not in page.partition("<body")[0]


@pytest.mark.parametrize(
    "name", ["Advice", "Comparison", "Examination", "LogDiagnosis", "OverflowReport", "PortResult", "TuneResult"]
)
def test_every_result_that_shows_itself_has_a_page(name: str) -> None:
    import jumar.advise.bottlenecks.advice
    import jumar.comparison.model.results
    import jumar.comparison.overflow.results
    import jumar.port.result  # noqa: F401

    classes = {kind.__name__ for kind in found(Shown)}
    assert name in classes
    assert classes <= set(_PAGES)
