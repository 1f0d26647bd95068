"""What several engines share: cutting a graph, borders between layouts, bound weights."""
