"""A real PyTorch that runs on the CPU, as a folder to import from: `sys.path.insert(0, str(torch_tree.path()))`.

The wheel of the package index is the CUDA build and brings gigabytes of libraries that nothing here calls. `path` takes
the wheels that requirements/torch.txt pins, without them, and puts small stand-ins in their places (stand_ins); it is
built once and kept in the user's cache. Tests on this machine import it; tests/e2e/node makes an image of it.
"""

from .build import missing, path

__all__ = ["missing", "path"]
