"""What libraries beside `torch.cuda` need on the stand-in for CUDA."""
