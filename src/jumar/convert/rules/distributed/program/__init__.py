"""How a training script is read and made distributed: the plan that the rules of this group report."""
