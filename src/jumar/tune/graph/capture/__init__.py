"""From a model to graphs: `torch.export`, programs on disk, pieces of a model that is no single graph."""
