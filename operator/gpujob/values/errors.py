"""The exceptions for bad input, as a tree. "No pool fits" is never here: it is a Decision.

BadInput a person's input cannot be read; the message names the field and the remedy ├── BadQuantity a memory, CPU, count or money
figure ├── BadManifest a GPUJob, GPUPool or GPURuntime that its schema refuses ├── BadClusterFile a cluster description
(multi-document YAML or JSON) that cannot be read └── CatalogInvalid a row of a catalog file that contradicts itself

The edges turn these into exit code 2 (command line) or one condition (operator); nothing else is caught by them.
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
