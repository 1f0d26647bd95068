"""Training as torchvision's reference does it: channels last, label smoothing, warm-up, an average of the weights."""

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda")


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.last = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x):
        hidden = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.last(hidden)))


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 3, 16, 16), torch.randint(0, 5, (24,)))
    stem = (nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = nn.Sequential(*stem, Block(8), *head).to(DEVICE, memory_format=torch.channels_last)
    average = AveragedModel(model, device=DEVICE, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    warm_up, cosine = LinearLR(optimizer, 0.1, total_iters=2), CosineAnnealingLR(optimizer, 4)
    scheduler = SequentialLR(optimizer, [warm_up, cosine], [2])
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for x, y in DataLoader(data, batch_size=8, pin_memory=True):
        x = x.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        average.update_parameters(model)
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
