"""The entry point of `kubectl-gpujob` and `gpujob`: one sentence for each error, and the exit codes that scripts read.

    0  Placed, or the command did what was asked      3  Waiting
    2  bad input, or no answer from a cluster         4  Impossible      5  Misconfigured
    1  gpujob itself failed, or the reader of its output is gone

`wait` gives 1 where the job failed and 3 where the time is up. Of several jobs the worst counts, in the order 2, 5, 4, 3, 0.
"""

from __future__ import annotations

import gc
import os
import sys

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 1
FAILED = 1


def run() -> None:
    """Runs the command line of this process and ends it with its exit code."""
    # Third-party plugins do not take part in a plan, and the search for them takes a fifteenth of the time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Short runs create little garbage, and the search takes a tenth of the time.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # A terminal without ✔ gets a question mark, not a traceback.
    sys.exit(main(sys.argv[1:], program=_program(sys.argv[0])))


def main(arguments: list[str], program: str = "gpujob") -> int:
    """Runs one command; gives its exit code. Each problem is one sentence on stderr."""
    if arguments == ["--version"]:
        from gpujob import __version__

        print(f"gpujob {__version__}")
        return 0
    from gpujob.values.errors import BadInput

    try:
        from gpujob.cli.verbs.verbs import run_verb

        code = run_verb(arguments, program)
        sys.stdout.flush()
        return code
    except BadInput as error:
        return _complain(str(error))
    except BrokenPipeError:
        # The reader of the output is gone; Python must not flush to it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gpujob"):
            return _fail(error)
        return _complain(f"the command line needs {error.name}: pip install 'gpujob-operator[cli]'")
    except Exception as error:
        return _fail(error)


def _complain(problems: str) -> int:
    """Prints each problem (a line each) on stderr."""
    from gpujob.cli.printing import say

    for sentence in problems.splitlines():
        say(f"error: {sentence}")
    return BAD_INPUT


def _fail(error: Exception) -> int:
    """Reports an error of the program itself; GPUJOB_TRACEBACK=1 shows where."""
    if os.environ.get("GPUJOB_TRACEBACK"):
        raise error
    _complain(
        f"gpujob failed ({type(error).__name__}: {error}); please report it with your files and GPUJOB_TRACEBACK=1"
    )
    return FAILED


def _program(path: str) -> str:
    """The command as its user writes it."""
    return "kubectl gpujob" if os.path.basename(path).startswith("kubectl-") else "gpujob"


if __name__ == "__main__":
    run()
