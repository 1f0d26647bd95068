"""The guide's training scripts, in small: mixed precision, prefetching, checkpoints that change devices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

import torch_npu  # noqa: E402  # there once the device is

Tensor = torch.Tensor
npu: Any = torch.npu
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}
LOSS_SCALE = 1024.0


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8 * 36, 5)
    )


def loader() -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(22, 3, 8, 8, generator=generator)
    labels = torch.randint(0, 5, (22,), generator=generator)
    return DataLoader(TensorDataset(images, labels), batch_size=4, drop_last=True)


def batches(device: str) -> Any:
    """The loader's batches on the device; on the npu by the prefetcher, as the guide has it."""
    if device == "cpu":
        yield from loader()
        return
    prefetcher = torch_npu.contrib.Prefetcher(loader())
    images, labels = prefetcher.next()
    while images is not None:
        yield images, labels
        images, labels = prefetcher.next()


def optimizer_of(parameters: Any, device: str) -> torch.optim.Optimizer:
    kind = torch_npu.optim.NpuFusedSGD if device == "npu" else torch.optim.SGD
    return kind(parameters, **SGD)


def values(model: nn.Module) -> list[Tensor]:
    return [tensor.detach().cpu().float() for tensor in model.state_dict().values()]


def test_training_from_the_prefetcher_with_a_fused_optimizer_is_training_on_the_cpu():
    trained = []
    for device in ("npu", "cpu"):
        npu.set_device("npu:0")
        model = network().to(device)
        optimizer, criterion = optimizer_of(model.parameters(), device), nn.CrossEntropyLoss().to(device)
        for images, labels in batches(device):
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trained.append(values(model))
    torch.testing.assert_close(trained[0], trained[1], rtol=1e-4, atol=1e-5)


def test_automatic_casting_with_loss_scaling_trains_alike_with_fused_and_plain_optimizers():
    """Apex's O1: float32 parameters, operators cast by a list, dynamic loss scale."""
    trained = []
    for kind in (torch_npu.optim.NpuFusedSGD, torch.optim.SGD):
        model, scaler = network().npu(), npu.amp.GradScaler(init_scale=2.0**20)
        optimizer = kind(model.parameters(), **SGD)
        for images, labels in [*batches("npu"), *batches("npu")]:
            optimizer.zero_grad()
            with npu.amp.autocast():
                output = model(images)
                loss = functional.cross_entropy(output, labels)
            assert (output.dtype, loss.dtype) == (torch.float16, torch.float32)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() < 2.0**20, "the first steps overflow and are skipped"
        trained.append(values(model))
    torch.testing.assert_close(trained[0], trained[1], rtol=1e-4, atol=1e-5)
    assert not torch.equal(trained[0][0], values(network())[0])


class Master:
    """Apex's O2: a float16 model whose normalisation stays float32, float32 master weights, a fixed loss scale."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.model = model.half()
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.float()
        self.weights = [parameter.detach().float().requires_grad_() for parameter in model.parameters()]
        self.optimizer = optimizer_of(self.weights, device)

    def step(self, images: Tensor, labels: Tensor) -> None:
        self.model.zero_grad()
        normalised = self.model[1](self.model[0](images.half()).float()).half()
        loss = functional.cross_entropy(self.model[2:](normalised).float(), labels)
        (loss * LOSS_SCALE).backward()
        for weight, parameter in zip(self.weights, self.model.parameters(), strict=True):
            gradient = parameter.grad.float() / LOSS_SCALE
            if weight.grad is None:
                weight.grad = gradient
            else:
                weight.grad.copy_(gradient)
        self.optimizer.step()
        with torch.no_grad():
            for weight, parameter in zip(self.weights, self.model.parameters(), strict=True):
                parameter.copy_(weight)


def test_master_weights_of_a_half_precision_model_train_as_on_the_cpu():
    trained = []
    for device in ("npu", "cpu"):
        master = Master(network().to(device), device)
        for images, labels in batches(device):
            master.step(images, labels)
        dtypes = {parameter.dtype for parameter in master.model.parameters()}
        assert dtypes == {torch.float16, torch.float32}
        trained.append([weight.detach().cpu() for weight in master.weights])
    torch.testing.assert_close(trained[0], trained[1], rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("target", ["cpu", "npu:1"])
def test_training_goes_on_from_a_checkpoint_on_another_device(tmp_path, target):
    def train(model: nn.Module, optimizer: torch.optim.Optimizer, data: list[Any], device: str) -> None:
        for images, labels in data:
            optimizer.zero_grad()
            functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()

    data = list(loader())
    model = network().npu()
    optimizer = torch_npu.optim.NpuFusedSGD(model.parameters(), **SGD)
    train(model, optimizer, data[:2], "npu:0")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint.pth")
    train(model, optimizer, data[2:], "npu:0")

    checkpoint = torch.load(tmp_path / "checkpoint.pth", map_location=target)
    assert {value.device for value in checkpoint["model"].values()} == {torch.device(target)}
    resumed = network().to(target)
    resumed.load_state_dict(checkpoint["model"])
    again = optimizer_of(resumed.parameters(), target.partition(":")[0])
    again.load_state_dict(checkpoint["optimizer"])
    train(resumed, again, data[2:], target)
    torch.testing.assert_close(values(resumed), values(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3), (2, 5, 3, 3)])
def test_labels_are_taken_as_int32(shape):
    """The guide casts labels to int32 on the way to the device."""
    logits = torch.randn(shape, requires_grad=True)
    labels = torch.randint(5, (shape[0], *shape[2:]))
    expected = functional.cross_entropy(logits, labels)
    expected.backward()
    on_npu = logits.detach().npu().requires_grad_()
    loss = nn.CrossEntropyLoss().to("npu:0")(on_npu, labels.to(torch.int32).to("npu:0", non_blocking=True))
    loss.backward()
    torch.testing.assert_close(loss.cpu(), expected)
    torch.testing.assert_close(on_npu.grad.cpu(), logits.grad)
