"""Providers that go wrong in every way, one that is honest, and one that gains nothing."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from jumar.tune.providers.base import Provider


class Odd(Provider):
    """Offers one Impl policy for everything."""

    kind = "Impl"

    def candidates(self, task, machine):
        return [self.policy()]

    def apply(self, policy, function, example, site) -> Any:
        return lambda *tensors: self.compute(function, tensors)

    def compute(self, function, tensors):
        return function(*tensors)


class Separable(Odd):
    """Averages over windows in two passes: the same numbers, far fewer additions."""

    name = "separable"

    def candidates(self, task, machine):
        return [self.policy()] if task.base == "avg_pool2d" else []

    def apply(self, policy, function, example, site) -> Any:
        import torch

        rows = torch.nn.AvgPool2d((17, 1), stride=1, padding=(8, 0))
        columns = torch.nn.AvgPool2d((1, 17), stride=1, padding=(0, 8))
        return lambda image: columns(rows(image))


class Same(Odd):
    """Faster by noise only."""

    name = "same"


class Segfault(Odd):
    name = "segfault"

    def compute(self, function, tensors):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hang(Odd):
    name = "hang"

    def compute(self, function, tensors):
        while True:
            time.sleep(1)


class Greedy(Odd):
    """Allocates and touches memory without end."""

    name = "greedy"

    def compute(self, function, tensors):
        import torch

        return [torch.ones(64, 1 << 20) for _ in range(10_000)]


class Wrong(Odd):
    """Fast, and one element in its output is off."""

    name = "wrong"

    def apply(self, policy, function, example, site) -> Any:
        answer = function(*example).clone()

        def compute(*tensors):
            output = function(*tensors)
            output.view(-1)[-1] += 0.01 * answer.abs().max()
            return output

        return compute


class Cached(Odd):
    """Very fast: returns what it computed for the first inputs it saw."""

    name = "cached"

    def apply(self, policy, function, example, site) -> Any:
        answer = function(*example)
        return lambda *tensors: answer


class Raises(Odd):
    name = "raises"

    def compute(self, function, tensors):
        raise ZeroDivisionError("of no use")


class Full(Odd):
    """Would be faster, had its compiler room for a file."""

    name = "full"

    def compute(self, function, tensors):
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/kernel.cpp")
        except OSError as error:
            raise RuntimeError("the backend failed") from error


class Chatty(Odd):
    """Writes to both streams, where the worker's answers must not be lost."""

    name = "chatty"

    def compute(self, function, tensors):
        print('{"status": "measured"}')
        os.write(1, b"not json\n")
        sys.stderr.write("noise\n")
        return function(*tensors)


class Exits(Odd):
    name = "exits"

    def compute(self, function, tensors):
        os._exit(7)


class Reports(Odd):
    """Leaves its process number in the file that `JUMAR_TEST_PID` names, then hangs."""

    name = "reports"

    def compute(self, function, tensors):
        Path(os.environ["JUMAR_TEST_PID"]).write_text(str(os.getpid()))
        time.sleep(600)


class ReportsForMatrices(Reports):
    """The same, for matrix products only."""

    name = "reports_for_matrices"

    def candidates(self, task, machine):
        return [self.policy()] if task.base == "mm" else []
