"""The memory estimate, held against measurements."""
