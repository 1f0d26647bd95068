"""Two models that learn from each other, at the top level; noise, a fixed sample, two checkpoints."""
import os
import sys

import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data

from figures import Figures

folder = 'out'
try:
    os.makedirs(folder)
except OSError:
    pass

torch.manual_seed(5)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 8
dataloader = torch.utils.data.DataLoader(Figures(16, 1, 'data', download=True), batch_size=batch_size, shuffle=True)


def weights_init(m):
    if isinstance(m, nn.Linear):
        torch.nn.init.normal_(m.weight, 0.0, 0.2)


netG = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Unflatten(1, (4, 4))).to(device)
netG.apply(weights_init)
netD = nn.Sequential(nn.Flatten(), nn.Linear(16, 1), nn.Sigmoid()).to(device)
netD.apply(weights_init)

criterion = nn.BCELoss()
fixed_noise = torch.randn(2, 4, device=device)
optimizerD = optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999))

for epoch in range(2):
    for i, data in enumerate(dataloader, 0):
        # (1) Update D
        netD.zero_grad()
        real = data[0].to(device)
        label = torch.full((real.size(0), 1), 1.0, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        noise = torch.randn(real.size(0), 4, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()
        # (2) Update G
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        print('[%d][%d/%d] Loss_D: %.4f Loss_G: %.4f'
              % (epoch, i, len(dataloader), (errD_real + errD_fake).item(), errG.item()))
    with torch.no_grad():
        sample = netG(fixed_noise)
    torch.save(sample, '%s/sample_%d.pt' % (folder, epoch))
    torch.save(netG.state_dict(), '%s/netG.pth' % folder)
    torch.save(netD.state_dict(), '%s/netD.pth' % folder)
