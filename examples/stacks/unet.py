"""diffusers: a UNet2DModel of random weights learns to predict noise."""

import torch
from diffusers import DDPMScheduler, UNet2DModel


def main():
    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=16,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).to("cuda")
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pictures = torch.randn(4, 1, 16, 16).to("cuda")
    for _ in range(3):
        noise = torch.randn(pictures.shape).to("cuda")
        times = torch.randint(0, 100, (4,)).to("cuda")
        loss = torch.nn.functional.mse_loss(model(scheduler.add_noise(pictures, noise, times), times).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
