"""timm: its training loop with Mixup, its optimizer, its schedule, its average of weights and its gradient scaler."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler, random_seed


def main():
    random_seed(0)
    device = torch.device("cuda")
    model = timm.create_model("resnet10t", num_classes=10, drop_path_rate=0.1).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2, warmup_lr_init=1e-4)
    average = ModelEmaV3(model, decay=0.9)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10)
    loss_function, scaler = SoftTargetCrossEntropy().to(device), NativeScaler(device=device.type)
    model.train()
    for step in range(3):
        images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
        images, targets = mixup(images.to(device, non_blocking=True), labels.to(device, non_blocking=True))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = loss_function(model(images), targets)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        average.update(model, step=step)
        schedule.step(step + 1)
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
