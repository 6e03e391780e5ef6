"""The page of all fields that users write, made from the CRDs.

python -m gpujob.api.generate.fields_page [--check] docs/fields.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from gpujob.api.generate.crd import KINDS, definition
from gpujob.values.generated import generate

Schema = dict[str, Any]

HEAD: Final = """# Fields

For authors of manifests: every field that a manifest may have. `kubectl explain gpujob.spec.placement` says the same in a
cluster, and a manifest that breaks a rule is rejected with the field, the reason and an example.
Quantities are written as Kubernetes writes them: `80G` is 80 × 10⁹ bytes,
`80Gi` is 80 × 2³⁰; `80GB` and `80GiB` mean the same. Amounts of money are text (`"2.10"`), so that no digit
is lost. `make generate` makes this page from `operator/gpujob/api`.
"""


def rows(schema: Schema, path: str = "", known: dict[str, str] | None = None) -> Iterator[tuple[str, str, str]]:
    """(path, type, meaning) of each field below an object, in the order of the CRD; a list's items are `path[]`.

    Objects with the same fields are listed once: `known` is the path of the first by its fields.
    """
    required, known = schema.get("required", ()), {} if known is None else known
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        inside = field.get("items", field)
        below = here if inside is field else f"{here}[]"
        first = known.setdefault(str(inside.get("properties", below)), below)
        meaning = field.get("description", "") + (f" Its fields are those of `{first}`." if first != below else "")
        yield here, _type(field) + (", required" if name in required else ""), meaning
        if first == below:
            yield from rows(inside, below, known)


def _type(field: Schema) -> str:
    if words := field.get("enum"):
        return " or ".join(f"`{word}`" if word else "nothing" for word in words)
    if field.get("x-kubernetes-int-or-string"):
        return "text or number"
    kind: str = field.get("type", "object")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if kind in ("integer", "number") and {"minimum", "maximum"} <= field.keys():
        return f"{field['minimum']} to {field['maximum']}"
    default = f", default `{field['default']}`" if "default" in field else ""
    return {"string": "text", "boolean": "true or false"}.get(kind, kind) + default


def page() -> str:
    """docs/fields.md: the specs of the kinds that users write; statuses and profiles are the operator's."""
    parts = [HEAD]
    for found in map(definition, KINDS):
        schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        if "spec" not in schema:
            continue
        parts.append(f"\n## {found['spec']['names']['kind']}\n\n{schema['spec'].get('description', '')}\n\n")
        parts.append("| field of `spec` | type | meaning |\n|---|---|---|\n")
        parts += [f"| `{name}` | {kind} | {_cell(meaning)} |\n" for name, kind, meaning in rows(schema["spec"])]
    return "".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Writes or checks the page; the exit code."""
    return generate(arguments, "gpujob/api", lambda path: {path: page().encode()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
