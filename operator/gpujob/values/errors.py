"""The exceptions for bad input, as a tree. "No pool fits" is never here: it is a Decision.

The edges turn each into exit code 2 (command line) or one condition (operator); nothing else is caught by them.
"""

from __future__ import annotations


class BadInput(Exception):
    """A user's input cannot be read; `str(error)` is one sentence with the field and the remedy."""


class BadQuantity(BadInput):
    """A memory, CPU, count or money figure that cannot be read."""


class BadManifest(BadInput):
    """A GPUJob, GPUPool or GPURuntime that its schema rejects."""


class BadClusterFile(BadInput):
    """A cluster description that cannot be read."""


class CatalogInvalid(BadInput):
    """A row of a catalog file that contradicts itself."""
