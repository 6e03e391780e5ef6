"""Generators of the chart's files: values.schema.json and the table of values in README.md, both made from values.yaml.

`make generate` writes them, `make verify` fails when they differ. `values` reads the file into a tree, `schema` and `readme`
write from it.
"""
