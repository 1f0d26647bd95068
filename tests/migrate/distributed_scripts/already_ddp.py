"""Several devices already, by its own means."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group('nccl')
    rank = int(os.environ['LOCAL_RANK'])
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4)
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
