"""What is made from a chart's values.yaml: the schema and the README's table; a value without its comment is refused."""

from __future__ import annotations

import json

import pytest

from charts.readme import BEGIN, END, NoPlace, with_table
from charts.schema import values_schema
from charts.values import Undescribed, leaves, read_values

FILE = """\
# About the file, which is of no value.

# How many.
# @schema {"minimum": 0}
replicas: 2
# The image.
image:
  # Its name, a|b.
  # Over two lines.
  repository: ""
  # Ports.
  # @schema {"$ref": "#/definitions/port", "maximum": 2000}
  port: 1024
# Labels.
# @schema {"$ref": "#/definitions/labels"}
labels:
  "a": "1"
"""


def test_each_value_has_its_comment_and_default() -> None:
    found = {value.path: (value.default, value.description) for value in leaves(read_values(FILE))}
    assert found == {
        "replicas": (2, "How many."),
        "image.repository": ("", "Its name, a|b. Over two lines."),
        "image.port": (1024, "Ports."),
        "labels": ({"a": "1"}, "Labels."),
    }


def test_the_schema_closes_groups_and_keeps_what_is_said_of_a_value() -> None:
    schema = json.loads(values_schema(read_values(FILE)))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["replicas", "image", "labels"]
    properties = schema["properties"]
    assert properties["replicas"] == {"description": "How many.", "type": "integer", "minimum": 0}
    assert properties["image"]["additionalProperties"] is False
    assert properties["image"]["properties"]["port"]["allOf"] == [{"$ref": "#/definitions/port"}, {"maximum": 2000}]
    assert properties["labels"]["allOf"] == [{"$ref": "#/definitions/labels"}]
    assert {"port", "labels"} <= schema["definitions"].keys()


def test_the_table_replaces_what_stands_between_its_marks() -> None:
    readme = f"before\n{BEGIN}old\n{END}after\n"
    values = read_values(FILE)
    made = with_table(readme, values)
    assert "| `replicas` | `2` | How many. |\n" in made
    assert '| `image.repository` | `""` | Its name, a\\|b. Over two lines. |\n' in made
    assert made.startswith("before\n")
    assert made.endswith("after\n")
    assert "old" not in made
    assert with_table(made, values) == made


@pytest.mark.parametrize(("readme", "lacking"), [("", BEGIN), (END, BEGIN), (BEGIN, END), (END + BEGIN, END)])
def test_a_readme_without_the_marks_is_refused(readme: str, lacking: str) -> None:
    with pytest.raises(NoPlace, match=f"README.md lacks the line '{lacking.strip()}'"):
        with_table(readme, read_values(FILE))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n", "values.yaml: a has no comment: write what it is above it"),
        ("# A.\na:\n  b: 1\n", "values.yaml: a.b has no comment: write what it is above it"),
        ("# A.\n\na: 1\n", "values.yaml: a has no comment: write what it is above it"),
        ('# @schema {"minimum": 1}\na: 1\n', "values.yaml: a has no comment: write what it is above it"),
        ("# A.\na: {}\n", "values.yaml: a is empty: say with @schema which keys it admits"),
        ("# A.\n# @schema {1}\na: 1\n", "values.yaml: @schema of a is no JSON: "),
        ("# A.\n# @schema [1]\na: 1\n", "values.yaml: @schema of a is no JSON object"),
        ("# A.\n# @schema {}\n# @schema {}\na: 1\n", "values.yaml: a has two lines @schema: write one"),
        ("", "values.yaml holds no values"),
    ],
)
def test_what_cannot_be_described_is_refused(text: str, said: str) -> None:
    with pytest.raises(Undescribed) as caught:
        read_values(text)
    assert str(caught.value).startswith(said)
