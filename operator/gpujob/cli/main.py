"""The entry point of `kubectl-gpujob` and `gpujob`: one sentence for each error, and the exit codes that scripts read.

    0  Placed, or the command did what was asked      3  Waiting
    2  bad input, or no answer from a cluster         4  Impossible      5  Misconfigured
    1  gpujob itself failed, or nobody reads its output

Of several jobs the worst counts, in the order 2, 5, 4, 3, 0.
"""

from __future__ import annotations

import gc
import os
import re
import sys

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 1
FAILED = 1


def run() -> None:
    """Runs the command line of this process and ends it with its exit code."""
    # Short runs make no garbage worth looking for, and the search takes a tenth of the time.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # A terminal without ✔ gets a question mark, not a traceback.
    sys.exit(main(sys.argv[1:], program=_program(sys.argv[0])))


def main(arguments: list[str], program: str = "gpujob") -> int:
    """Runs one command; gives its exit code. Each problem is one sentence on stderr."""
    if arguments == ["--version"]:  # Typer needs a third of a second more to answer this.
        from gpujob import __version__

        print(f"gpujob {__version__}")
        return 0
    try:
        from gpujob.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gpujob"):
            raise
        return _complain(f"the command line needs {error.name}: pip install 'gpujob-operator[cli]'")
    from gpujob.errors import BadInput

    try:
        code = app(arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BadInput as error:
        return _complain(str(error))
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not flush to it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # Typer's own errors (an unknown option, a missing one); its versions do not agree on where the class lives.
        wording = getattr(error, "format_message", None)
        if wording is None:
            return _fail(error)
        sentence = _sentence(wording())
        return _complain(sentence if sentence.endswith("?") else f"{sentence}; see {program} --help")


def _complain(problems: str) -> int:
    """Says each problem (a line each) on stderr."""
    from gpujob.cli.printing import say

    for sentence in problems.splitlines():
        say(f"error: {sentence}")
    return BAD_INPUT


def _fail(error: Exception) -> int:
    """Says that the fault is ours; GPUJOB_TRACEBACK=1 shows where."""
    if os.environ.get("GPUJOB_TRACEBACK"):
        raise error
    _complain(
        f"gpujob failed ({type(error).__name__}: {error}); please report it with your files and GPUJOB_TRACEBACK=1"
    )
    return FAILED


def _sentence(message: str) -> str:
    """A message of Typer's as the beginning of a sentence of ours."""
    message = " ".join(message.split()).rstrip(".").replace("Value error, ", "")
    message = re.sub(r" \(Possible options?: (.*)\)", r"; did you mean \1?", message).replace(". Did you", "; did you")
    return message[:1].lower() + message[1:]


def _program(path: str) -> str:
    """The command as its user writes it."""
    return "kubectl gpujob" if os.path.basename(path).startswith("kubectl-") else "gpujob"


if __name__ == "__main__":
    run()
