"""The image of a candidate, by name and reference."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.values.vocabulary import Backend


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """The image of a candidate and the runtime whose facts were checked (None: nothing is known of the image)."""

    name: str
    image: str
    backend: Backend
