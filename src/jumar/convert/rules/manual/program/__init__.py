"""How the rules of this group read a training script: its loops, loaders, losses and mixed precision."""
