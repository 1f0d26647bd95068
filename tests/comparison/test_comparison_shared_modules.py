"""Modules that are called several times a step, and parameters of one shape in one module."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import jumar
from jumar.capture import record
from jumar.comparison import Comparison, compare


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def siamese(folder: Path, device: str, momentum: float = 0.1) -> Path:
    """Record a model with batch norm that is called twice a step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4, momentum=momentum), nn.ReLU()).to(device)
    batches = torch.randn(2, 2, 6, 1, 6, 6)
    updates = torch.optim.SGD(model.parameters(), lr=0.05)
    with record(str(folder), model=model):
        for first, second in batches:
            loss = (model(first.to(device)) * model(second.to(device))).mean()
            updates.zero_grad()
            loss.backward()
            updates.step()
    return folder


def packed(folder: Path, device: str) -> Path:
    """Record two layers over packed sequences, whose time steps have batches of other sizes."""
    torch.manual_seed(0)
    layers = nn.GRU(5, 8, num_layers=2, batch_first=True, bidirectional=True).to(device)
    x, lengths = torch.randn(2, 4, 12, 5), torch.tensor([12, 10, 9, 7])
    updates = torch.optim.SGD(layers.parameters(), lr=0.05)
    with record(str(folder), model=layers):
        for batch in x:
            out, _ = layers(nn.utils.rnn.pack_padded_sequence(batch.to(device), lengths, batch_first=True))
            out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            updates.zero_grad()
            out.square().mean().backward()
            updates.step()
    return folder


def recurrent(folder: Path, device: str, kind: str) -> Path:
    """Record a recurrent layer under autocast, which casts parameters of one shape in another order on each device."""
    torch.manual_seed(0)
    layer = getattr(nn, kind)(5, 8, batch_first=True, bidirectional=True).to(device)
    x = torch.randn(2, 4, 6, 5)
    updates = torch.optim.SGD(layer.parameters(), lr=0.05)
    with record(str(folder), model=layer):
        for batch in x:
            with torch.autocast(torch.device(device).type, torch.bfloat16):
                out, _ = layer(batch.to(device))
            updates.zero_grad()
            out.float().square().mean().backward()
            updates.step()
    return folder


def on_both(tmp_path: Path, program, *arguments) -> Comparison:
    reference = program(tmp_path / "cpu", "cpu", *arguments)
    with jumar.emulate(numerics="strict", unsupported="fallback"):
        return compare(reference, program(tmp_path / "npu", "npu", *arguments))


@pytest.mark.slow
def test_running_statistics_written_earlier_in_the_step_are_no_initial_values(tmp_path) -> None:
    found = on_both(tmp_path, siamese)
    assert found.status == "agree", found.headline


@pytest.mark.slow
def test_another_momentum_of_running_statistics_is_the_cause(tmp_path) -> None:
    found = compare(siamese(tmp_path / "a", "cpu"), siamese(tmp_path / "b", "cpu", momentum=0.2))
    assert found.status == "diverge"
    assert found.first_divergence is not None
    assert [(a.name, a.reference, a.target) for a in found.first_divergence.arguments] == [("momentum", 0.1, 0.2)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_casts_of_parameters_with_one_shape_are_paired_by_the_parameter(tmp_path, kind) -> None:
    found = on_both(tmp_path, recurrent, kind)
    assert found.status == "agree", found.headline


@pytest.mark.slow
def test_calls_that_are_a_pair_by_name_alone_have_no_other_arguments(tmp_path) -> None:
    found = on_both(tmp_path, packed)
    assert found.status == "agree", found.headline
