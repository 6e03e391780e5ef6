"""The forms of texts that Kubernetes or a container runtime will read: a pattern, a sentence and an example each.

The API server (CEL) and the manifest parser (Python) match the same pattern with the same message: without it the child would be
rejected after the placement. Patterns are valid in RE2 and Python's re.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Form:
    """Requires a text of one form; with `whole` the pattern is anchored at both ends."""

    what: str
    """What it should be, with its article."""
    write: str
    """How to write it, with an example."""
    pattern: str

    @property
    def sentence(self) -> str:
        """The message about a text of another form, after the text."""
        return f"is not {self.what}; write {self.write}"

    def cel(self, text: str) -> str:
        """Whether the CEL expression `text` is of this form, as CEL."""
        return f"{text}.matches({_literal(f'^({self.pattern})$')})"

    def fits(self, text: str) -> bool:
        """Whether a text is of this form."""
        return re.fullmatch(self.pattern, text) is not None

    def _read(self, value: str) -> str:
        if not self.fits(value):
            raise ValueError(f"{value[:63]} {self.sentence}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "x-kubernetes-validations": [refusal(self.cel("self"), "self", self.sentence)]}


def refusal(rule: str, text: str, sentence: str) -> dict[str, str]:
    """A rule of CEL with the message after the rejected text, which the CEL expression `text` gives.

    The API server drops a message of several lines, as a text with a line end makes it, and then prints the rule's static one.
    """
    return {"rule": rule, "message": f"this {sentence}", "messageExpression": f"{text} + {_literal(' ' + sentence)}"}


def _literal(text: str) -> str:
    """A text as a literal of CEL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = f"{_LABEL}([.]{_LABEL})*"
_QUALIFIED: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

DNS_LABEL: Final = Form("a name", "lower-case letters, digits and hyphens, for example train-data", _LABEL)
DNS_SUBDOMAIN: Final = Form(
    "a name", "lower-case letters, digits, hyphens and dots, for example train-data", _SUBDOMAIN
)
DATA_KEY: Final = Form(
    "a key of a ConfigMap or Secret", "letters, digits, - _ and . only, for example train.py", "[-._a-zA-Z0-9]+"
)
VARIABLE: Final = Form(
    "the name of a variable",
    "letters, digits, _ - and ., no digit first, for example NCCL_DEBUG",
    "[A-Za-z_][A-Za-z0-9_.-]*",
)
VARIABLE_PREFIX: Final = Form(
    "the beginning of a name of a variable",
    "letters, digits, _ - and ., no digit first, for example DATA_",
    f"({VARIABLE.pattern})?",
)
RESOURCE_NAME: Final = Form(
    "a device plugin's resource", "domain/name, for example amd.com/gpu", "[a-z0-9.-]+/[A-Za-z0-9._-]+"
)
DEVICE_COUNT: Final = Form("a number of devices", "a whole number in quotes, for example 1", "[1-9][0-9]{0,3}")
VERSION: Final = Form("a version", "numbers with dots, for example 2.14.1", "[0-9]+([.][0-9]+)*[A-Za-z0-9.+-]*")
ARCHITECTURE: Final = Form(
    "an architecture",
    "for example gfx942, gfx11-generic, 9.0 or 12.0+PTX",
    "gfx[0-9a-f]{3,4}|gfx(9|9-4|10-1|10-3|11|12)-generic|[0-9]{1,2}[.][0-9][af]?([+]PTX)?",
)

_HOST_PART: Final = "[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_PATH_PART: Final = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
_NO_PART: Final = r"/\x00-\x1f\x7f"
RELATIVE_PATH: Final = "^([.]?[^.!][^!]*|[.])(/([.]{0,2}[^.!][^!]*|[.]{3}[^!]*|[.])?)*$".replace("!", _NO_PART)
"""No / or .. at the start, no part .. and no control character: the API server's check where a rule costs too much."""
IMAGE: Final = Form(
    "a container image",
    "registry/name:tag in lower case (a tag has at most 128 characters and may have upper case, a digest is @sha256: and 64 "
    "hexadecimal digits), for example rocm/pytorch:latest",
    rf"({_HOST_PART}([.]{_HOST_PART})*(:[0-9]+)?/)?{_PATH_PART}(/{_PATH_PART})*"
    "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?",
)
"""The grammar of distribution/reference, without IPv6 addresses as registries. Of digests it takes the three algorithms of go-digest
alone, in small letters and of the right length.
"""

LABEL_KEY: Final = Form(
    "a label key",
    "name or prefix/name, at most 63 letters, digits, - _ and . in the name, for example team or example.com/team",
    f"({_SUBDOMAIN}/)?{_QUALIFIED}",
)
ANNOTATION_KEY: Final = Form(
    "an annotation key",
    "name or prefix/name, at most 63 letters, digits, - _ and . in the name, for example example.com/owner",
    f"({_HOST_PART}([.]{_HOST_PART})*/)?{_QUALIFIED}",
)
LABEL_VALUE: Final = Form(
    "a label value",
    "nothing, or at most 63 letters, digits, - _ and . that begin and end with a letter or digit, for example vision",
    f"({_QUALIFIED})?",
)
PREFIX_LENGTH: Final = 253
"""The most characters before the slash of a key."""

FIELD_PATH: Final = Form(
    "a field that a variable can have",
    "metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, "
    "spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP or status.podIPs",
    "metadata[.](name|namespace|uid)|spec[.](nodeName|serviceAccountName)|status[.](hostIPs?|podIPs?)|"
    rf"metadata[.](labels|annotations)\['({_HOST_PART}([.]{_HOST_PART})*/)?{_QUALIFIED}'\]",
)
RESOURCE_FIELD: Final = Form(
    "a figure of a container",
    "limits or requests with cpu, memory or ephemeral-storage, for example limits.memory",
    "(limits|requests)[.](cpu|memory|ephemeral-storage)",
)
DIVISOR: Final = Form(
    "a divisor", "1m or 1 for cpu; 1, 1k, 1M, 1G, 1Ki, 1Mi, 1Gi and so on for sizes", "1(m|[kMGTPE]|[KMGTPE]i)?"
)
