"""Values that every room uses: names, quantities, reasons, findings and errors.

Reading order: `vocabulary` and `reasons` (every word), `finding` (a reason with numbers), `quantity` (exact amounts), `names`,
<<<<<<< HEAD
`untrusted` (members of unknown type), `packed` (members as text), `errors`, `derived` (cached values), `generated` (files of
`make generate`).
=======
`untrusted` (members of unknown type), `packed` (members as text), `errors`, `derived` (cached values),
`generated` (files of `make generate`).
>>>>>>> 0315339c (A packed object keeps no more than its text: orjson's result keeps the room of its buffer, 4 KiB for 200 bytes)
"""
