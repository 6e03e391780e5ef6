"""Rules that join several fields, one module a kind; the CRDs carry them as CEL."""
