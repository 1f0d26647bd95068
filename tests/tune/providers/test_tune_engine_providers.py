"""Engines as providers of single operators keep the contract of providers; small operators are left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from provider_contract import ProviderContract
from tune_builders import MACHINE, mm_task, needs_openvino, spec

from jumar.tune.measure.worker.trial import Case
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task
from jumar.tune.providers.base import Provider
from jumar.tune.providers.engine import OnnxRuntimeOperator, OpenVinoOperator


def softmax() -> Task:
    arguments = {"dim": -1, "half_to_float": False}
    return Task(operator="aten::_softmax", tensors={"self": spec(4, 64, 64)}, arguments=arguments)


class OperatorContract(ProviderContract):
    @pytest.fixture
    def tasks(self) -> list[Task]:
        return [softmax()]

    def test_an_operator_shorter_than_a_call_of_the_engine_is_left_alone(self, provider: Provider) -> None:
        assert list(provider.candidates(mm_task(), MACHINE)) == []

    def test_a_policy_of_another_version_is_refused(self, provider: Provider, tmp_path: Path) -> None:
        case = Case(softmax())
        site = case.site(tmp_path, 1)
        with pytest.raises(TuneError, match="tune again"):
            provider.apply(provider.policy(version="0.0"), case.plain, site.example, site)


class TestOnnxRuntimeOperator(OperatorContract):
    @pytest.fixture
    def provider(self) -> Provider:
        pytest.importorskip("onnxruntime")
        return OnnxRuntimeOperator()


class TestOpenVinoOperator(OperatorContract):
    @pytest.fixture
    def provider(self) -> Provider:
        needs_openvino()
        return OpenVinoOperator()


def test_openvino_reports_nothing_when_jumar_imports_it() -> None:
    needs_openvino()
    code = (
        "import sys, threading\n"
        "happened = []\n"
        "sys.addaudithook(lambda event, _: happened.append(event))\n"
        "from jumar.tune.engines.openvino.model import package\n"
        "package().Core()\n"
        "assert 'openvino_telemetry' not in sys.modules\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "assert not {'socket.connect', 'subprocess.Popen', 'os.fork', 'os.posix_spawn'} & set(happened)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
