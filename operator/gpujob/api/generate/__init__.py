"""Generators of the CRDs and of the pages of fields and reasons."""
