"""Whether a range contains any version at all."""

from __future__ import annotations


def is_satisfiable(text: str) -> bool:
    """Whether any released version is in a range such as ">=2.10,<2.15"; also if the text is no range."""
    # late import: most jobs request no version, and the command line pays for every import
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return not SpecifierSet(text, prereleases=False).is_unsatisfiable()
    except InvalidSpecifier:
        return True
