"""What every test needs of the process it runs in."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# NOTE: tests start hundreds of Python processes. Without byte code each of them, and each worker of xdist, compiles
# the package and the tests anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# NOTE: the workers of xdist share the processors. With a thread for each processor in each worker, tests of small
# tensors wait for each other twice as long as they calculate (measured with two workers on two processors).
os.environ.setdefault("OMP_NUM_THREADS", "1")

# NOTE: the suite is about emulated devices and answers of machines without a GPU. Those about a real one run with
# TEST_GPU=1 (tests/npu/test_beside_a_gpu.py).
if not os.environ.get("TEST_GPU"):
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# NOTE: the same examples in every run, and no complaint about how long they take: the machine may be busy.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# NOTE: a shell that starts the suite in the background leaves SIGINT ignored, for this process and every child.
# Tests of Ctrl-C would then wait for an interrupt that cannot come.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text("utf-8").splitlines())
"""`test_file.py::test_name[parameters]` of tests that take more than about 0.2 seconds of the processor;
`scripts/list_slow_tests.py` writes it. A test that must be slow by its nature has the mark in its file."""


SAMPLED = {
    name: int(every)
    for name, every in (
        line.split() for line in Path(__file__).with_name("sampled.txt").read_text("utf-8").splitlines()
    )
}
"""`test_file.py::test_name` to N: every Nth of its cases runs, the others with `--full` only. 0: none of them runs
without it. `scripts/list_slow_tests.py` writes the numbers above 0."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every case of the tests in tests/sampled.txt")


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of tests that have many slow ones, unless the command line names a test."""
    if config.getoption("--full") or any("::" in one for one in config.args):
        return
    seen: Counter[str] = Counter()
    left_out = []
    for item in items:
        name = f"{item.path.name}::{item.nodeid.partition('::')[2].partition('[')[0]}"
        every = SAMPLED.get(name, 1)
        if every == 0 or seen[name] % every:
            left_out.append(item)
        seen[name] += 1
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _sample(config, items)
    for item in items:
        if f"{item.path.name}::{item.nodeid.partition('::')[2]}" in SLOW:
            item.add_marker(pytest.mark.slow)


def _framework(name: str) -> Path:
    python = Path(__file__).parents[1] / f".{name}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no .{name}: python scripts/framework_environment.py {name} makes that environment")
    return python


@pytest.fixture(scope="session")
def mindspore() -> Path:
    """The interpreter of the environment with MindSpore."""
    return _framework("mindspore")


@pytest.fixture(scope="session")
def tensorflow() -> Path:
    """The interpreter of the environment with TensorFlow 2.15, the last with Estimator."""
    return _framework("tensorflow")


@pytest.fixture(scope="session")
def new_tensorflow() -> Path:
    """The interpreter of the environment with TensorFlow 2.21."""
    return _framework("tensorflow-2.21")
