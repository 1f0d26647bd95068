"""Walks through the steps and ranks of two recordings and gathers the evidence."""
