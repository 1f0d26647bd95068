"""A network that tells digits apart, and the digits: drawn seven-segment numbers, shifted, scaled and noisy.

`network` is a factory as `jumar tune digits.py:network` takes it: it returns the trained model and example inputs.
`wrong_digits` is a metric for `jumar tune --metric digits:wrong_digits`.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

SIZE = 28
SEGMENTS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
"""Which of the seven segments each digit has."""
LINES = {
    "a": (4, 8, 4, 19), "b": (4, 19, 13, 19), "c": (14, 19, 23, 19), "d": (23, 8, 23, 19), "e": (14, 8, 23, 8),
    "f": (4, 8, 13, 8), "g": (13, 8, 13, 19),
}  # fmt: skip
"""Row and column of a segment's two ends."""


def digits(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `count` images (float32, count x 1 x 28 x 28) and their digits (int64); the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    shapes = torch.zeros(10, SIZE, SIZE)
    for digit, segments in enumerate(SEGMENTS):
        for segment in segments:
            top, left, bottom, right = LINES[segment]
            shapes[digit, top : bottom + 2, left : right + 2] = 1
    shifts = torch.randint(-3, 4, (count, 2), generator=generator).tolist()
    images = torch.stack([shapes[label].roll(shift, (0, 1)) for label, shift in zip(labels, shifts, strict=True)])
    images = images * (0.5 + torch.rand(count, 1, 1, generator=generator))
    return (images + 0.3 * torch.randn(images.shape, generator=generator)).unsqueeze(1), labels


class Network(nn.Module):
    """Separable convolutions with normalizations, pooled, and a linear layer; for 28 x 28 images of one channel."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for inputs, outputs, stride in ((width, 2 * width, 1), (2 * width, 4 * width, 2), (4 * width, 4 * width, 1)):
            layers += [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs)]
            layers += [nn.ReLU(), nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(4 * width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a score for each digit."""
        return self.head(self.layers(images).mean((2, 3)))


def trained(steps: int = 60) -> Network:
    """Return a network after `steps` steps of 64 images."""
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        images, labels = digits(64, seed=step)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def network() -> tuple[Network, tuple[torch.Tensor]]:
    """Return the trained network and a batch of images nobody trained on."""
    return trained(), (digits(16, seed=10_000)[0],)


def wrong_digits(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    """Return the share of images that get another digit than from the reference."""
    return float((outputs[0].argmax(1) != reference[0].argmax(1)).double().mean())
