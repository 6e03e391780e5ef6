"""The condition record of every kind, in the shape of metav1.Condition."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpujob.api.fields.base import Shape


class Condition(Shape):
    """One aspect of the object: True, False or Unknown, why, since when, and for which generation."""

    type: Annotated[str, Field(max_length=64)]
    """Which aspect, one word."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=64)]
    """Why, one word."""
    message: Annotated[str, Field(max_length=4096)]
    """Why, one sentence with numbers and the remedy."""
    last_transition_time: Annotated[str, Field(max_length=32)]
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that it is about."""
