"""Rules that join several fields, one module a kind; the CRDs carry them as CEL.

Reading order: `rule` (one rule in CEL and in Python), then the rules of each kind: `jobs` with `pods`, `pools`, `runtimes`.
"""
