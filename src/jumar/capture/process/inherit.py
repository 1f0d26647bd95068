"""Processes that an observed script starts: torchrun ranks, spawned workers.

They get the device at once. They are observed from the moment they make an optimizer or call a module with parameters.
Data-loader workers, pools and helper processes do neither and are not observed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer

from jumar.capture.notes.patches import Patches
from jumar.capture.plans.plan import RecordPlan, stop_after_from
from jumar.capture.process.plugin import call_plugin
from jumar.capture.process.processes import let_go
from jumar.capture.process.seeds import seed_generators
from jumar.capture.profile.plan import ProfilePlan
from jumar.device import ActiveDevice, DevicePlan


def join_run(environ: Mapping[str, str]) -> None:
    """Start the device and the observation that the environment variables ask for. Raises JumarError when that is not
    possible."""
    install_workspace_guard(environ)
    device_plan = DevicePlan.from_environment(environ)
    device = None
    if device_plan is not None:
        from jumar.device import activate

        device = activate(device_plan)
    seed_generators(environ)
    call_plugin(environ)
    plan = RecordPlan.from_environment(environ)
    profile = ProfilePlan.from_environment(environ) if plan is None else None
    if profile is not None:
        from jumar.capture.profile.loader.parts import join_as_worker

        join_as_worker(Path(profile.out))
    stop_after = stop_after_from(environ)
    if plan is not None or stop_after is not None or profile is not None:
        _Trigger(plan, stop_after, device, profile).arm()


def install_workspace_guard(environ: Mapping[str, str]) -> None:
    """Redirect this process's writes, and watch its imports, when the run is a trial in a copy-on-write workspace."""
    from jumar.capture.process.project import watch_project
    from jumar.capture.process.workspace import ENVIRONMENT, install_guard

    root = environ.get(ENVIRONMENT)
    if root:
        install_guard(Path(root))
    watch_project(environ)


class _Trigger:
    """Waits for a sign of training or inference, then starts the session."""

    def __init__(
        self,
        plan: RecordPlan | None,
        stop_after: int | None,
        device: ActiveDevice | None,
        profile: ProfilePlan | None = None,
    ) -> None:
        self._plan, self._stop_after, self._device, self._profile = plan, stop_after, device, profile
        self._patches = Patches()
        self._handle: Any = None

    def arm(self) -> None:
        self._handle = register_module_forward_pre_hook(self._on_call)
        self._patches.around(Optimizer, "__init__", self._around_optimizer)

    def _on_call(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if next(module.parameters(), None) is not None:
            self._start((module, args))

    @contextmanager
    def _around_optimizer(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        self._start(None)
        yield

    def _start(self, missed_call: tuple[nn.Module, tuple[Any, ...]] | None) -> None:
        self._handle.remove()
        self._patches.restore()
        from jumar.capture.profile.session import ProfileSession
        from jumar.capture.session.session import Session

        if torch.utils.data.get_worker_info() is not None or Session.current or ProfileSession.current:
            return
        session: Session | ProfileSession
        if self._profile is not None:
            session = ProfileSession(self._profile, device=self._device)
        else:
            session = Session(self._plan, device=self._device, stop_after=self._stop_after)
        end_with_the_process(session)
        session.start()
        if missed_call is None:
            session.observer.expect_optimizer()
        else:
            session.observer.catch_up(*missed_call)


def end_with_the_process(session: Any) -> None:
    """Write the end when the process ends before the session does: normally, by an exception, as a spawned worker."""
    uncaught: list[BaseException] = []
    previous = sys.excepthook

    def remember(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        uncaught.append(error)
        previous(kind, error, trace)

    sys.excepthook = remember

    def end() -> None:
        if type(session).current is session:  # else it has ended by itself
            # NOTE: multiprocessing runs its finalizers while the exception that ends a worker is in flight.
            session.end_by(sys.exc_info()[1] or (uncaught[0] if uncaught else None))
        let_go()

    Finalize(None, end, exitpriority=100)
