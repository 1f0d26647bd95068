"""ShuffleNetV2 (Ma et al., 2018) for small and large pictures."""
import torch
import torch.nn as nn

WIDTHS = {
    'x0.5': (24, 48, 96, 192, 1024),
    'x1.0': (24, 116, 232, 464, 1024),
    'x1.5': (24, 176, 352, 704, 1024),
    'x2.0': (24, 244, 488, 976, 2048),
}
REPEATS = (4, 8, 4)


def channel_shuffle(x, groups):
    batch_size, num_channels, height, width = x.size()
    channels_per_group = num_channels // groups
    x = x.view(batch_size, groups, channels_per_group, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch_size, -1, height, width)


def pointwise(inp, oup):
    return [nn.Conv2d(inp, oup, 1, 1, 0, bias=False), nn.BatchNorm2d(oup), nn.ReLU(inplace=True)]


def depthwise(channels, stride):
    return [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False), nn.BatchNorm2d(channels)]


class InvertedResidual(nn.Module):
    """One unit: half of the channels pass by (stride 1), or both halves are computed (stride 2)."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        self.stride = stride
        half = oup // 2
        if stride == 1:
            self.branch1 = nn.Identity()
            entry = half
        else:
            self.branch1 = nn.Sequential(*depthwise(inp, stride), *pointwise(inp, half))
            entry = inp
        self.branch2 = nn.Sequential(*pointwise(entry, half), *depthwise(half, stride), *pointwise(half, half))

    def forward(self, x):
        if self.stride == 1:
            x1, x2 = x.chunk(2, dim=1)
            out = torch.cat((x1, self.branch2(x2)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


class ShuffleNetV2(nn.Module):
    def __init__(self, width='x1.0', num_classes=1000):
        super().__init__()
        stem, *stages, head = WIDTHS[width]
        self.conv1 = nn.Sequential(nn.Conv2d(3, stem, 3, 2, 1, bias=False), nn.BatchNorm2d(stem),
                                   nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inp = stem
        for i, (oup, repeats) in enumerate(zip(stages, REPEATS)):
            units = [InvertedResidual(inp, oup, 2)]
            units += [InvertedResidual(oup, oup, 1) for _ in range(repeats - 1)]
            setattr(self, 'stage{}'.format(i + 2), nn.Sequential(*units))
            inp = oup
        self.conv5 = nn.Sequential(*pointwise(inp, head))
        self.fc = nn.Linear(head, num_classes)

    def forward(self, x):
        x = self.maxpool(self.conv1(x))
        x = self.stage4(self.stage3(self.stage2(x)))
        x = self.conv5(x)
        x = x.mean([2, 3])
        return self.fc(x)
