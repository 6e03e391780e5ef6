"""What runs inside the user's container: the preflight before the program, the reporter beside it.

Standard library only, Python 3.9 and newer, nothing of `gpujob`: the image is the user's. A ConfigMap brings it to
/opt/gpujob, read-only. Nothing here may ever end a program that would have run without it.
"""
