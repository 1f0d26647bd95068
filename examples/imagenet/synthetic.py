"""A data set of pictures that make themselves: every class is a grating with its own angle, pitch and colour.

Item i is always the same picture, whatever the worker or the epoch, and the classes can be learnt.
"""
import math

import torch
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class SyntheticImages(Dataset):
    def __init__(self, length, image_size=64, num_classes=10, seed=0):
        self.length = length
        self.num_classes = num_classes
        self.seed = seed
        axis = torch.linspace(-1.0, 1.0, image_size)
        self.rows, self.columns = torch.meshgrid(axis, axis, indexing='ij')

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = index % self.num_classes
        angle = math.pi * label / self.num_classes
        pitch = 6.0 + 2.0 * (label % 4)
        phase = 2.0 * math.pi * torch.rand((), generator=generator)
        wave = torch.sin(pitch * (math.cos(angle) * self.rows + math.sin(angle) * self.columns) + phase)
        colour = torch.tensor([math.cos(label), math.cos(label + 2.0), math.cos(label + 4.0)]).view(3, 1, 1)
        image = 0.5 + 0.25 * wave * colour + 0.1 * torch.randn(3, *wave.shape, generator=generator)
        return (image.clamp(0.0, 1.0) - MEAN) / STD, label
