"""A filter in no list rejects no pool: each one is in `POOL_RULES`, and the tables about filters name no other."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

from gpujob.placement import filters
from gpujob.placement.filters import pool_filters, selection

FILTER = ("demand: 'Demand'", "pool: 'Pool'", "fleet: 'Fleet'")
MODULES = [
    importlib.import_module(f"{filters.__name__}.{each.name}") for each in pkgutil.iter_modules(filters.__path__)
]


def filters_of(module: ModuleType) -> set[str]:
    """The public functions of a module with the parameters and the result of a filter."""
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    signatures = {name: inspect.signature(each) for name, each in own.items() if inspect.isfunction(each)}
    return {
        name
        for name, found in signatures.items()
        if tuple(map(str, found.parameters.values())) == FILTER
        and found.return_annotation == "Finding | None"
        and not name.startswith("_")
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_each_filter_of_a_module_is_in_the_list(module: ModuleType) -> None:
    assert filters_of(module) <= {rule.__name__ for rule in pool_filters.POOL_RULES}


def test_the_list_has_each_filter_once_and_nothing_else() -> None:
    names = [rule.__name__ for rule in pool_filters.POOL_RULES]
    assert len(set(names)) == len(names)
    assert set().union(*map(filters_of, MODULES)) == set(names)


@pytest.mark.parametrize("table", ["_SILENT", "_QUIET", "_OF_POOL_CLASS", "_OF_NUMBERS", "_FOR_EVERY_GANG"])
def test_tables_about_filters_name_filters_of_the_list(table: str) -> None:
    assert set(getattr(selection, table)) <= set(pool_filters.POOL_RULES)
