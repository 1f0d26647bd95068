"""The quick part of the scoreboard: one of each kind; the whole is `slow` and benchmarks/accuracy_scoreboard.py."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from scoreboard.cases import all_cases
from scoreboard.faults import Case
from scoreboard.harness import Runner

QUICK = (
    ("GELU variant", "gpt"),
    ("flipped sequence", "cnn"),
    ("stale statistics: kernel", "cnn"),
    ("float16 overflow in one block", "seq2seq"),
    ("backward: norm's weight", "cnn"),
    ("optimizer with another epsilon", "cnn"),
    ("other kernels", "gpt"),
    ("float16 autocast with GradScaler", "cnn"),
    ("emulated NPU, strict", "cnn"),
)


HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
MISSED = {"cnn from the third step, other thread count aten::convolution"} if HAS_AVX512 else set[str]()
"""What docs/accuracy-scoreboard.md publishes as missed: the other threads' rounding hides the fault, or not, as the
processor's kernels have it (AVX-512: missed, AVX2: named)."""


def known(case: Case) -> str:
    return " ".join(filter(None, (case.model, case.name, case.operator)))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("scoreboard"))


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


@cache
def has_bfloat16_recurrent_layers() -> bool:
    """Tell whether PyTorch computes them here: oneDNN has them for processors with AVX-512 only."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            torch.nn.LSTM(4, 4)(torch.randn(2, 1, 4))
    except RuntimeError:
        return False
    return True


def check(runner: Runner, case: Case, values: str) -> None:
    if case.model.startswith("recurrent") and "bfloat16 autocast" in case.name and not has_bfloat16_recurrent_layers():
        pytest.skip("PyTorch has no recurrent layers in bfloat16 for this processor")
    result = runner.run(case, values, seed=0)
    assert result.outcome == ("quiet" if case.healthy else "exact"), f"{result.answer} instead of {result.truth}"


@pytest.mark.parametrize("case", [case for case in all_cases() if (case.name, case.model) in QUICK], ids=known)
def test_the_answer_is_right(runner, case) -> None:
    check(runner, case, "sketch")


def every_case() -> Iterator[Any]:
    for case in all_cases():
        if case.model != "gpt, two ranks":
            is_missed = known(case) in MISSED
            marks = [pytest.mark.xfail(strict=True, reason="published as missed")] if is_missed else []
            yield pytest.param(case, id=known(case), marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(every_case()))
def test_every_answer_is_right(runner, case) -> None:
    """At the default values; benchmarks/accuracy_scoreboard.py takes the others, too."""
    check(runner, case, "sketch")


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in all_cases() if case.model == "gpt, two ranks"], ids=known)
def test_what_two_ranks_do_not_do_together_is_named(tmp_path: Path, case) -> None:
    check(Runner(tmp_path), case, "sketch")


def test_every_quick_case_is_there() -> None:
    assert {(case.name, case.model) for case in all_cases()} >= set(QUICK)
