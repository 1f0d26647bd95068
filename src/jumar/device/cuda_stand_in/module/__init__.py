"""The stand-in for the module `torch.cuda`."""
