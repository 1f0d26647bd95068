"""The pytest plugin: `--device npu`, the fixtures `device` and `npu`, `@pytest.mark.npu(soc=...)`.

    pytest --device npu                      # `device` is the NPU in every test that takes it
    @pytest.mark.npu(soc="Ascend910A")       # this test runs on that chip, with or without --device

PyTorch is imported only when a device is needed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from jumar.base.errors import JumarError

if TYPE_CHECKING:
    import torch

    from jumar.device import DevicePlan

OPTION, LONG_OPTION = "--device", "--jumar-device"
DEVICES = ("cpu", "cuda", "npu")
MARK = (
    "npu(soc=..., num_devices=..., numerics=..., unsupported=..., memory_bytes=..., single_device=...): run the test "
    "with an NPU; the arguments are those of jumar.emulate."
)
SETTINGS = ("soc", "num_devices", "numerics", "unsupported", "memory_bytes", "single_device")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the long option; the short one waits until the suite's own options are known."""
    group = parser.getgroup("jumar")
    group.addoption(
        LONG_OPTION, choices=DEVICES, default=None, help=f"As {OPTION}, for suites that have an option of that name."
    )
    group.addoption("--soc", default=None, metavar="SOC", help="The chip of an emulated NPU, e.g. Ascend910A.")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Add `--device` once the suite's conftest files are loaded, and only if none of them has an option of that name.

    Adding it earlier would break every suite that defines its own.
    """
    _rewrite_only_contracts(early_config)
    _forget_value(early_config, args)
    yield
    if not _has_option(parser, OPTION):
        parser.getgroup("jumar").addoption(
            OPTION, choices=DEVICES, default=None, help="Device that the fixture `device` gives: cpu, cuda or npu."
        )


def _rewrite_only_contracts(config: pytest.Config) -> None:
    """Keep pytest from rewriting the assertions of all of Jumar, and let it rewrite those of `jumar.testing`.

    pytest rewrites the whole package of a plugin: hundreds of modules, parsed again in every process that keeps no
    byte code. It has no public function that takes a mark back.
    """
    hook = config.pluginmanager.rewrite_hook
    marked: set[str] = getattr(hook, "_must_rewrite", set())
    if "jumar" in marked:
        marked.discard("jumar")
        hook.mark_rewrite("jumar.testing")


def _forget_value(early_config: pytest.Config, args: Sequence[str]) -> None:
    """Take the value of `--device VALUE` out of the paths: pytest does not know the option yet and takes it for one."""
    paths = getattr(early_config.known_args_namespace, "file_or_dir", [])
    for option, value in itertools.pairwise(args):
        if option == OPTION and value in paths:
            paths.remove(value)


def _has_option(parser: pytest.Parser, name: str) -> bool:
    groups = [parser._anonymous, *parser._groups]  # pytest offers no public list of options
    return any(name in option.names() for group in groups for option in group.options)


def pytest_configure(config: pytest.Config) -> None:
    """Bring the device up before test modules are imported, so that they may use it at import time."""
    config.addinivalue_line("markers", MARK)
    if _chosen(config) == "npu":
        plan = _bring_up(config)
        os.environ.update(plan.to_environment())  # for the processes that tests start


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the device up before the first test when any test wants it.

    PyTorch starts a thread for each device with the first backward pass of a process, and none later.
    """
    if any(_wants_npu(item) for item in items) and config.stash.get(_ACTIVE, None) is None:
        _bring_up(config)


def _wants_npu(item: pytest.Item) -> bool:
    return item.get_closest_marker("npu") is not None or "npu" in getattr(item, "fixturenames", ())


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which NPU the tests run on."""
    active = config.stash.get(_ACTIVE, None)
    return None if active is None else f"jumar: {active.description}, {active.soc}"


_ACTIVE = pytest.StashKey[Any]()


def _chosen(config: pytest.Config) -> str:
    for name in (LONG_OPTION, OPTION):
        value = config.getoption(name, default=None)
        if value is not None:
            return str(value)
    return "cpu"


def _bring_up(config: pytest.Config) -> DevicePlan:
    """Activate the NPU in this process and return the plan. Raises UsageError with one sentence."""
    from jumar.device import DevicePlan, activate

    try:
        soc = config.getoption("--soc", default=None)
        plan = DevicePlan(soc=soc) if soc else DevicePlan()
        config.stash[_ACTIVE] = activate(plan)
    except JumarError as error:
        raise pytest.UsageError(str(error)) from error
    return plan


def _settings(mark: pytest.Mark) -> dict[str, Any]:
    """Return the arguments of the mark. Raises UsageError when it has others than `jumar.emulate`."""
    given = dict(zip(SETTINGS, mark.args, strict=False)) | dict(mark.kwargs)
    unknown = sorted(set(given) - set(SETTINGS))
    if unknown or len(mark.args) > len(SETTINGS):
        raise pytest.UsageError(
            f"@pytest.mark.npu takes {', '.join(SETTINGS)}; got {', '.join(unknown) or f'{len(mark.args)} arguments'}."
        )
    return given


@contextlib.contextmanager
def _block(config: pytest.Config, settings: Mapping[str, Any]) -> Iterator[None]:
    """Have the NPU of these settings: the emulated one takes them, the real one must be of that chip."""
    active = config.stash[_ACTIVE]
    if active.description != "npu (emulated)":
        wanted = settings.get("soc")
        if wanted and wanted.lower() != active.soc.lower():
            pytest.skip(f"needs {wanted}; this machine has {active.soc}")
        yield
        return
    from jumar.device import DevicePlan, emulate

    soc = config.getoption("--soc", default=None)
    wished = {**({"soc": soc} if soc else {}), **settings}
    with emulate(**wished), _environment(DevicePlan(real="never", **wished).to_environment()):
        yield


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these variables, for the processes that a test starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(autouse=True)
def _npu_of_mark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a test with the mark `npu` its device."""
    mark = request.node.get_closest_marker("npu")
    if mark is None:
        yield
        return
    try:
        with _block(request.config, _settings(mark)):
            yield
    except JumarError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture
def npu(request: pytest.FixtureRequest, _npu_of_mark: None) -> Iterator[torch.device]:
    """The NPU, as `torch.device("npu")`; settings made in the test end with it."""
    import torch

    if request.node.get_closest_marker("npu") is not None:
        yield torch.device("npu")
        return
    with _block(request.config, {}):
        yield torch.device("npu")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device chosen with `--device`, the CPU by default; the NPU in a test with the mark `npu`."""
    import torch

    chosen = _chosen(request.config)
    if chosen == "npu" or request.node.get_closest_marker("npu") is not None:
        found: torch.device = request.getfixturevalue("npu")
        return found
    if chosen == "cuda" and not torch.cuda.is_available():
        pytest.skip("--device cuda: PyTorch finds no CUDA device on this machine")
    return torch.device(chosen)
