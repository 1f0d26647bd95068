"""Scopes in a graph for which the vendor's compiler fuses kernels; they change no result and nothing here."""

from __future__ import annotations

__all__ = ["super_kernel_scope_begin", "super_kernel_scope_end"]


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Accept the beginning of a scope. Raises RuntimeError for an empty name."""
    _check(scope_name)


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    """Accept the end of a scope. Raises RuntimeError for an empty name."""
    _check(scope_name)


def _check(scope_name: str | None) -> None:
    if scope_name is not None and not scope_name.strip():
        raise RuntimeError("scope_name should be None or a non-empty string.")
