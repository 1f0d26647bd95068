"""Puts this folder on the path: its helpers (`tune_builders`, `graph_models`, …) serve every folder below."""
