"""Checks that image, devices, memory and folders are what was promised, before the program starts.

Reading order: `main` (the entry), `promise` (what was promised), `interpreter` (which Python the command will use),
`probing` with `probe` (what that Python's torch sees), `nodes` and `places` (device nodes; folders and shared memory) with `refusal`,
`verdict` (what of it is not as promised) and `result` (the termination message, which the operator reads).
"""
