"""Prints the software bill of materials of a root folder as CycloneDX 1.6: `python sbom.py FOLDER`.

Debian's packages are those of var/lib/dpkg/status.d, Python's those that have a dist-info. The bytes depend on the folder
alone.
"""

import email.parser
import json
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import quote

_PACKAGES = "usr/local/lib/python3.13/dist-packages"
_OWN = "gpujob-operator"

Component = dict[str, object]


def bill_of(root: Path) -> dict[str, object]:
    """The document; the operator is what it describes, and all else is a component."""
    found = {each.metadata["Name"].lower(): each for each in distributions(path=[str(root / _PACKAGES)])}
    own = found.pop(_OWN)
    components = [*_debian(root), *(_python(found[name]) for name in sorted(found))]
    described = {**_python(own), "type": "application"}
    content = json.dumps([described, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": described},
        "components": components,
        "dependencies": [
            {"ref": described["bom-ref"], "dependsOn": sorted(str(each["bom-ref"]) for each in components)}
        ],
    }


def _debian(root: Path) -> Iterator[Component]:
    for file in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = email.parser.HeaderParser().parsestr(file.read_text())
        name, version = fields["Package"], fields["Version"]
        url = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={fields['Architecture']}&distro=debian-13"
        yield {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def _python(distribution: Distribution) -> Component:
    name, version = distribution.metadata["Name"], distribution.version
    url = f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{quote(version)}"
    component: Component = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    licence = distribution.metadata.get("License-Expression")
    return {**component, "licenses": [{"expression": licence}]} if licence else component


if __name__ == "__main__":
    json.dump(bill_of(Path(sys.argv[1])), sys.stdout, indent=1, sort_keys=True)
