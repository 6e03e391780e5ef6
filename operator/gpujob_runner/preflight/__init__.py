"""Checks image, devices, memory and folders against the expectation, before the program starts.

Reading order: `main` (the entry), `expected` (what the operator expects), `interpreter` (which Python the command will use),
`probing` with `probe` (what that Python's torch sees), `nodes` and `folders` (device nodes; folders and shared memory) with `refusal`,
`verdict` (what differs from the expectation) and `result` (the termination message, which the operator reads).
"""
