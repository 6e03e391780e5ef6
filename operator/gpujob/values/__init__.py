"""Values that every room uses: names, quantities, reasons, findings and errors.

Reading order: `vocabulary` and `reasons` (every word), `finding` (a reason with numbers), `quantity` (exact amounts), `names`,
`untrusted` (members of unknown type), `packed` (members as text), `errors`, `derived` (cached values),
`generated` (files of `make generate`).
"""
