"""The catalog of a plan: the shipped one or --catalog, with what the operator's ConfigMap and then the options add to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpujob.cli.input.sources import print_notes, read_catalog
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import one_line, table

if TYPE_CHECKING:
    from gpujob.catalog.catalog import Catalog
    from gpujob.cli.input.request import Request
    from gpujob.fleet.pools.pool import Pool


def catalog_for(request: Request, documents: Sequence[Any]) -> Catalog:
    """The catalog that the operator of these objects plans with, and what --price and --image-mirror set instead.

    What is wrong in the ConfigMap is reported on stderr, as the operator logs it; a wrong option is BadInput.
    """
    catalog = read_catalog(request.catalog)
    text = _site_in(documents, request.operator_namespace)
    if not (text or request.price or request.image_mirror):
        return catalog
    from gpujob.catalog.files.site import CONFIG_MAP, with_prices, with_site

    if text:
        before = len(catalog.refused)
        try:
            catalog = with_site(catalog, text)
        except BadInput as error:
            raise BadInput(f"ConfigMap {request.operator_namespace}/{CONFIG_MAP}: {error}") from error
        print_notes([sentence for _, sentence in catalog.refused[before:]], f"row of {CONFIG_MAP} left out")
    earlier = len(catalog.refused)
    catalog = with_prices(catalog, _pairs("--price", "NAME=DOLLARS", request.price))
    if len(catalog.refused) > earlier:
        raise BadInput("\n".join(sentence for _, sentence in catalog.refused[earlier:]))
    return with_mirrors_of(request, catalog)


def with_mirrors_of(request: Request, catalog: Catalog) -> Catalog:
    """The catalog with the mirrors of --image-mirror; a wrong one is BadInput."""
    from gpujob.catalog.files.site import with_mirrors

    pairs = _pairs("--image-mirror", "FROM=TO", request.image_mirror)
    found = with_mirrors(catalog, "--image-mirror", [{"from": source, "to": target} for source, target in pairs])
    if len(found.refused) > len(catalog.refused):
        raise BadInput("\n".join(sentence for _, sentence in found.refused[len(catalog.refused) :]))
    return found


def note_prices_of_nothing(catalog: Catalog, pools: Iterable[Pool]) -> None:
    """Reports own prices of what is no accelerator, and no instance type of the catalog or of a pool: most likely a slip."""
    there = {pool.instance_type.lower() for pool in pools}
    listed = {price.instance_type.lower() for price in catalog.prices if price.instance_type}
    words = {price.word for price in catalog.own_prices.values() if price.of_node}
    strange = sorted(word for word in words if not (word.lower() in there | listed or catalog.machine(word)))
    print_notes(
        [f"prices.{one_line(word[:63])}: no accelerator and no known instance type has this name" for word in strange],
        "note",
    )


def _pairs(option: str, form: str, words: Iterable[str]) -> list[tuple[str, str]]:
    found = [word.partition("=") for word in words]
    wrong = next((name + middle for name, middle, value in found if not (name and value)), None)
    if wrong is not None:
        raise BadInput(f"{option}: {wrong!r} is not {form}")
    return [(name, value) for name, _, value in found]


def _site_in(documents: Sequence[Any], namespace: str) -> str:
    """The text of the operator's ConfigMap among some objects; empty where it is not there. One in another namespace is anybody's."""
    from gpujob.catalog.files.site import CONFIG_MAP, FILE
    from gpujob.fleet.sources.cluster_file import objects_in

    def is_it(item: Mapping[str, Any]) -> bool:
        metadata = table(item, "metadata")
        return item.get("kind") == "ConfigMap" and (metadata.get("namespace"), metadata.get("name")) == (
            namespace,
            CONFIG_MAP,
        )

    found = next(filter(is_it, objects_in(documents, [])), {})
    text = table(found, "data").get(FILE)
    return text if isinstance(text, str) else ""
