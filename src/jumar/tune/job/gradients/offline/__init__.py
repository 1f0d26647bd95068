"""The split of a recording's gradients, with times of the recording or of a profile. Nothing of it needs PyTorch."""
