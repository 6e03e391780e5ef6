"""Checks that image, devices, memory and folders are what was expected, before the program starts.

Reading order: `main` (the entry), `expected` (what the operator expects), `interpreter` (which Python the command will use),
`probing` with `probe` (what that Python's torch sees), `nodes` and `folders` (device nodes; folders and shared memory) with `refusal`,
`verdict` (what of it is not as expected) and `result` (the termination message, which the operator reads).
"""
