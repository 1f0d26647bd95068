"""`torch_npu.testing.testcase.TestCase`: unittest's, with comparisons of tensors."""

# ruff: noqa: PT009 (these are the methods that unittest's tests call)

from __future__ import annotations

import contextlib
import importlib
import os
import random
import re
import time
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from jumar.npu.api.testing.common_utils import (
    PERF_TEST_ENABLE,
    PerfBaseline,
    set_npu_device,
)
from jumar.npu.api.testing.comparisons import Comparisons

__all__ = ["TestCase", "run_tests"]

_SLOWER, _FASTER = 1.2, 0.9
"""A test fails above the first share of its recorded time. Below the second share its time is recorded again."""


def run_tests() -> None:
    """Run the tests of the calling script."""
    unittest.main()


def _base() -> Any:
    """Return the class with `assertExpected`, where the package that has it is installed."""
    try:
        return importlib.import_module("expecttest").TestCase
    except ImportError:
        return unittest.TestCase


class TestCase(Comparisons, _base()):  # type: ignore[misc]
    """Seeds the generators before each test, and compares numbers, tensors and collections of them."""

    maxDiff = None
    npu_device = ""

    def __init__(self, method_name: str = "runTest") -> None:
        super().__init__(method_name)

    @classmethod
    def setUpClass(cls) -> None:
        """Make the device of SET_NPU_DEVICE current."""
        cls.npu_device = set_npu_device()

    def setUp(self) -> None:
        """Seed with the variable SEED, 666 by default."""
        seed = int(os.environ.get("SEED", "666"))
        torch.manual_seed(seed)
        random.seed(seed)

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """Fail unless the very object is in the iterable."""
        if not any(element is obj for element in iterable):
            raise AssertionError("object not found in iterable")

    def assertExpectedRaises(self, exc_type: Any, call_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Compare the message of the error a call raises with the expected text (needs the package expecttest)."""
        subname = kwargs.pop("subname", None)
        try:
            call_fn(*args, **kwargs)
        except exc_type as error:
            self._expected(str(error), subname)
            return
        self.fail(msg="Did not raise when expected to")

    def assertExpectedStripMangled(self, s: str, subname: str | None = None) -> None:
        """Compare a text, without TorchScript's made-up names, with the expected one (needs the package expecttest)."""
        self._expected(re.sub(r"__torch__[^ ]+", "", s), subname)

    def _expected(self, text: str, subname: str | None) -> None:
        compare = getattr(self, "assertExpected", None)
        if compare is None:
            raise NotImplementedError("comparing with expected texts needs the package expecttest: install it.")
        compare(text, subname)

    def assertWarns(self, call_fn: Any, msg: str = "", *args: Any, **kwargs: Any) -> Any:
        """Fail unless the call warns; with a class of warnings in place of the call, unittest's own method."""
        if isinstance(call_fn, type):
            return super().assertWarns(call_fn, *([msg] if msg else []), *args, **kwargs)
        super().assertTrue(_warnings_of(call_fn), msg)
        return None

    def assertNotWarn(self, call_fn: Callable[[], Any], msg: str = "") -> None:
        """Fail when the call warns."""
        super().assertEqual([str(warning.message) for warning in _warnings_of(call_fn)], [], msg)

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """Let the block warn in this category with a message that matches; fail for any other warning."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", message=regex, category=category)
            yield
        if caught:
            texts = "\n".join(str(warning.message) for warning in caught)
            self.fail(f"Caught unexpected warnings:\n{texts}")

    def run(self, result: Any = None) -> Any:
        """Run the test; with PERF_TEST_ENABLE once more, against its recorded time."""
        done = super().run(result)
        if PERF_TEST_ENABLE:
            self._run_timed(result)
        return done

    def _run_timed(self, result: Any) -> None:
        again = unittest.TestResult()
        start = time.perf_counter()
        super().run(again)
        seconds = time.perf_counter() - start
        if not again.wasSuccessful():
            return
        recorded = PerfBaseline.get_baseline(self.id())
        if recorded and seconds > recorded * _SLOWER and result is not None:
            text = f"Performance test failed. Performance baseline: {recorded}s, current time: {seconds}s"
            error = self.failureException(text)
            result.addFailure(self, (self.failureException, error, None))
        if recorded is None or seconds < recorded * _FASTER:
            PerfBaseline.set_baseline(self.id(), seconds)


def _warnings_of(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return list(caught)
