"""What every test needs of the process it runs in."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# NOTE: the same examples in every run, and no complaint about how long they take: the machine may be busy.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# NOTE: a shell that starts the suite in the background leaves SIGINT ignored, for this process and every child.
# Tests of Ctrl-C would then wait for an interrupt that cannot come.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
