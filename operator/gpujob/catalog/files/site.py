"""What an installation adds to the shipped catalog: prices that it pays, rows of its own, mirrors of registries, the
ServiceAccounts that jobs may name, the parts of the host that GPUPools may give, and where the documentation site is.

The chart writes it from its values into the ConfigMap `gpujob-site`, where the operator and the command line read it:

    prices: {H100-SXM: 2.10, p5.48xlarge: {OnDemand: 40, Spot: 18.5}}
    catalog: {runtimes: [...], accelerators: [...]}
    imageMirrors: [{from: docker.io/rocm, to: registry.example/rocm}]
    serviceAccounts: [dataset-reader]
    hostAccess: [hostDevices, hostNetwork]
    docsURL: https://docs.example/gpujob

A price of an accelerator is of one device an hour, of an instance type of one node an hour. Rows are those of `--catalog`;
each replaces the shipped one of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.pricelist import OwnPrice
from gpujob.catalog.files import load
from gpujob.catalog.files.fields import Row
from gpujob.catalog.images.mirrors import Mirror, is_registry
from gpujob.values.errors import BadInput, BadQuantity, CatalogInvalid
from gpujob.values.quantity import MAX_PRICE, parse_dollars
from gpujob.values.vocabulary import CapacityType, HostAccess

CONFIG_MAP: Final = "gpujob-site"
"""The name of the ConfigMap in the operator's namespace."""
FILE: Final = "site.yaml"
"""Its key, and the name of the file that the operator mounts."""
MOST_OF_A_NODE: Final = 64 * MAX_PRICE
"""The highest price of a node: of as many devices as one was ever seen to have, and some more."""

_MEMBERS: Final = ("prices", "catalog", "imageMirrors", "serviceAccounts", "hostAccess", "docsURL")
_ACCOUNT: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_URL: Final = re.compile(r"(?=.{1,512}$)https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~%/-]*)?")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


def with_site(catalog: Catalog, text: str) -> Catalog:
    """The catalog with what a site's text adds; what is wrong in it is left out and listed in `Catalog.refused`.

    Raises BadInput where the text cannot be read at all, or names a section that does not exist.
    """
    documents = [document for document in load.read_documents(text) if document is not None]
    if not documents:
        return replace(catalog, service_accounts=frozenset(), host_access=frozenset())
    if len(documents) > 1:
        raise BadInput(f"{FILE} has {len(documents)} documents; write one")
    site = Row(FILE, documents[0])
    site.only(*_MEMBERS)
    made = load.extended(catalog, site.table("catalog"))
    made = with_prices(made, site.table("prices").items())
    made = with_mirrors(made, "imageMirrors", site.rows("imageMirrors"))
    made = _with_accounts(made, site.rows("serviceAccounts"))
    made = _with_host_access(made, site.rows("hostAccess"))
    return _with_docs(made, site.text("docsURL", ""))


def _with_docs(catalog: Catalog, url: str) -> Catalog:
    """The catalog with the address of the documentation site."""
    if url and not _URL.fullmatch(url):
        sentence = f"docsURL is {url[:100]!r}; the address of the site is wanted, such as https://docs.example/gpujob"
        return replace(catalog, refused=(*catalog.refused, ("docsURL", sentence)))
    return replace(catalog, docs_url=url.rstrip("/"))


def _with_accounts(catalog: Catalog, names: Iterable[Any]) -> Catalog:
    """The catalog with the ServiceAccounts that jobs may name, and no others."""
    rows = [(f"serviceAccounts row {number}", name) for number, name in enumerate(names, start=1)]
    good = frozenset(name for _, name in rows if isinstance(name, str) and _ACCOUNT.fullmatch(name))
    wrong = tuple(
        (row, f"{row}: {str(name)[:100]!r} is not the name of a ServiceAccount, such as dataset-reader")
        for row, name in rows
        if not (isinstance(name, str) and name in good)
    )
    return replace(catalog, service_accounts=good, refused=(*catalog.refused, *wrong))


def _with_host_access(catalog: Catalog, words: Iterable[Any]) -> Catalog:
    """The catalog with the parts of the host that GPUPools may give to pods, and no others."""
    known = {each.value: each for each in HostAccess}
    rows = [(f"hostAccess row {number}", word) for number, word in enumerate(words, start=1)]
    good = frozenset(known[word] for _, word in rows if isinstance(word, str) and word in known)
    wrong = tuple(
        (row, f"{row}: {str(word)[:100]!r} is none of {', '.join(known)}")
        for row, word in rows
        if not (isinstance(word, str) and word in known)
    )
    return replace(catalog, host_access=good, refused=(*catalog.refused, *wrong))


def with_prices(catalog: Catalog, prices: Iterable[tuple[str, Any]]) -> Catalog:
    """The catalog with what is paid, by accelerator or instance type: dollars an hour, or a table of them by capacity type.

    The price of one board counts before that of its family, in whatever order they are written.
    """
    own, refused = dict(catalog.own_prices), list(catalog.refused)
    for word, said in sorted(prices, key=lambda row: -len(catalog.named(row[0]))):
        try:
            own.update(_prices_of(word, said, catalog))
        except CatalogInvalid as error:
            refused.append((f"prices.{word}", str(error)))
    return replace(catalog, own_prices=own, refused=tuple(refused))


def with_mirrors(catalog: Catalog, label: str, raws: Iterable[Any]) -> Catalog:
    """The catalog with mirrors, each a table of `from` and `to`; of two with the same `from` the later one counts."""
    found, refused = {mirror.source: mirror for mirror in catalog.mirrors}, list(catalog.refused)
    for number, raw in enumerate(raws, start=1):
        name = f"{label} row {number}"
        try:
            mirror = _mirror(Row(name, raw))
            found[mirror.source] = mirror
        except CatalogInvalid as error:
            refused.append((name, str(error)))
    return replace(catalog, mirrors=tuple(found.values()), refused=tuple(refused))


def _mirror(row: Row) -> Mirror:
    row.only("from", "to")
    for name in ("from", "to"):
        text = row.text(name)
        if not _NAME.fullmatch(text) or not is_registry(text.partition("/")[0]):
            wanted = "a registry with or without a path is wanted, such as docker.io/rocm"
            raise CatalogInvalid(f"{row.label}: {name} is {text[:100]!r}; {wanted}")
    return Mirror(row.text("from"), row.text("to"))


def _prices_of(word: str, said: Any, catalog: Catalog) -> Iterable[tuple[str, OwnPrice]]:
    """The prices of a word, by what `Catalog.own_price` asks for: the ids of an accelerator, else an instance type.

    Instance types need no row: a cloud of one's own names its machines as it likes.
    """
    label, ids = f"prices.{word}", catalog.named(word)
    most = MAX_PRICE if ids else MOST_OF_A_NODE
    if isinstance(said, dict):
        table = Row(label, said)
        table.only(*CapacityType)
        amounts = {
            capacity: _amount(label, table.text(capacity), most) for capacity in CapacityType if capacity in said
        }
    else:
        amounts = dict.fromkeys(CapacityType, _amount(label, said, most))
    price = OwnPrice(word, amounts, of_node=not ids)
    return [(name, price) for name in ids] if ids else [(word.lower(), price)]


def _amount(label: str, text: Any, most: int) -> int:
    try:
        price = parse_dollars(text, most)
    except BadQuantity as error:
        raise CatalogInvalid(f"{label}: {error}") from None
    if price == 0:
        raise CatalogInvalid(f"{label} is 0; leave out what is not known")
    return price
