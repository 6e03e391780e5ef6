"""`doctor`: what of a cluster keeps jobs from its GPUs, or from being seen there; each finding with its remedy.

Reading order: `gather` (what is read) into `facts`, `checks` (all of them, in order), each check in `installation`, `nodes`,
`pools`, `namespace`, `monitoring` or `uninstallation`, and `finding` (its result).
"""
