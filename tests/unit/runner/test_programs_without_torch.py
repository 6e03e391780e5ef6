"""The reporter in processes as they come in a container, without torch or with a stand-in of a few lines."""

from __future__ import annotations

import json
import shutil
import socket
import textwrap
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.runner.running import ON_PATH, PROGRAMS, run

SCRAPE = f"import sys; sys.path.append({str(PROGRAMS)!r}); from scraping import page\n"
TORCH = {
    "torch/__init__.py": "def is_grad_enabled(): return True\nfrom torch import optim\nimport torch.utils.data.dataloader\n",
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer\n",
    "torch/optim/optimizer.py": """
        HOOKS = {}
        class Handle:
            def __init__(self, hook): HOOKS[id(self)] = hook
            def remove(self): HOOKS.pop(id(self))
        def register_optimizer_step_post_hook(hook): return Handle(hook)
        class Optimizer:
            def step(self):
                for hook in list(HOOKS.values()): hook(self, (), {})
    """,
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": """
        class _BaseDataLoaderIter:
            def __init__(self, batches): self._dataset, self._batches = batches, iter(batches)
            def __iter__(self): return self
            def __next__(self): return next(self._batches)
    """,
    "deepspeed/__init__.py": "",
    "deepspeed/runtime/__init__.py": "",
    "deepspeed/runtime/engine.py": """
        class DeepSpeedEngine:
            def __init__(self, optimizer, groups):
                self.optimizer, self.groups, self.global_steps, self.skipped_steps = optimizer, groups, 0, 0
            def _take_model_step(self, overflow=False):
                if overflow: self.skipped_steps += 1
                else: [self.optimizer.step() for _ in range(self.groups)]
                self.global_steps += 1
    """,
}


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a torch and a deepspeed of a few lines, with the names that the reporter uses."""
    return write_tree(tmp_path / "site", TORCH)


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    """Writes files by their path below `folder`, which it returns."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    return folder


def test_a_program_without_torch_starts_nothing(tmp_path: Path) -> None:
    done = run(
        [
            "-c",
            "import sys, threading; print(*sorted(n for n in sys.modules if 'gpujob' in n), threading.active_count())",
        ],
        tmp_path,
    )
    report = "gpujob_runner.report"
    assert done.stdout == f"gpujob_runner {report} {report}.loader {report}.own_imports {report}.watch 1\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_importing_torch_starts_nothing_before_a_step(tmp_path: Path, stand_in: Path) -> None:
    done = run(["-c", "import torch, threading; print(threading.active_count())"], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert not (tmp_path / "report").exists()


def test_without_the_pods_variable_nothing_is_watched(tmp_path: Path, stand_in: Path) -> None:
    done = run(
        ["-c", "import sys, torch; print('gpujob_runner' in sys.modules)"],
        tmp_path,
        behind=[stand_in],
        GPUJOB_REPORT_PORT="",
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_watched_modules_look_as_if_nobody_watched(tmp_path: Path, stand_in: Path) -> None:
    program = """
        import inspect, torch.optim.optimizer as module
        print(type(module.__loader__).__name__, module.__spec__.loader is module.__loader__, "HOOKS" in inspect.getsource(module))
    """
    done = run(["-c", textwrap.dedent(program)], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("SourceFileLoader True True\n", "")


def test_a_missing_torch_is_missing_as_before(tmp_path: Path) -> None:
    done = run(["-c", "import torch.optim.optimizer"], tmp_path)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"


def test_the_shadowed_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins\nbuiltins.ran = __file__\n")
    done = run(
        ["-c", "import sys; print(ran, sys.modules['sitecustomize'].__file__)"], tmp_path, behind=[tmp_path / "own"]
    )
    own = str(tmp_path / "own" / "sitecustomize.py")
    assert (done.stdout, done.stderr) == (f"{own} {own}\n", "")


def test_the_images_own_path_comes_back_for_the_process_and_its_children(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "of_the_image.py").write_text("")
    (tmp_path / "image.json").write_text(json.dumps({"PYTHONPATH": f"{tmp_path / 'image'}:/nowhere"}))
    program = "import of_the_image, os, subprocess, sys; print(os.environ['PYTHONPATH']); sys.stdout.flush();"
    child = 'subprocess.run([sys.executable, "-c", "import of_the_image, sys; print(sys.path.count(of_the_image.__file__[:-16]))"])'
    done = run(["-c", program + child], tmp_path, behind=[Path("/users")])
    assert done.stdout == f"{ON_PATH}:/users:{tmp_path / 'image'}:/nowhere\n1\n"
    assert done.stderr == ""


def test_caches_of_the_image_that_are_of_no_use_are_unset_and_those_of_a_script_are_not(tmp_path: Path) -> None:
    unset = {"HF_HOME": "/root/hf", "TORCH_HOME": "/root/torch", "TRITON_CACHE_DIR": "/root/triton"}
    (tmp_path / "image.json").write_text(json.dumps({"unset": unset, "PYTHONPATH": "/image"}))
    shown = "import os; print([os.environ.get(n) for n in ('HF_HOME', 'TORCH_HOME', 'TRITON_CACHE_DIR', 'PYTHONPATH')])"
    done = run(["-c", shown], tmp_path, behind=[Path("/users")], HF_HOME="/root/hf", TORCH_HOME="/data/torch")
    assert (done.stdout, done.stderr) == (f"[None, '/data/torch', None, '{ON_PATH}:/users:/image']\n", "")


@pytest.mark.parametrize(
    "note",
    ['{"unset": 7}', '{"unset": ["HF_HOME"]}', "", "[]", "{}", '{"PYTHONPATH": 7}', '{"PYTHONPATH": null}', "\x00"],
)
def test_a_note_of_the_image_that_is_no_note_harms_nothing(tmp_path: Path, note: str) -> None:
    (tmp_path / "image.json").write_text(note)
    done = run(["-c", "print('fine')"], tmp_path)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_lines_outside_a_gpujob_do_nothing(tmp_path: Path) -> None:
    shutil.copy(ON_PATH / "gpujob_report.py", tmp_path)
    program = (
        "import gpujob_report as g, threading; g.step(1, 2, 3); g.progress(1); g.checkpoint()\n"
        "with g.saving(): pass\n"
        "print(threading.active_count())"
    )
    done = run(["-c", program], tmp_path, PYTHONPATH="", GPUJOB_REPORT_PORT="")
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert run(["-c", program], tmp_path, PYTHONPATH="").stdout == "1\n"


def test_lines_of_a_program_without_torch_are_served(tmp_path: Path) -> None:
    program = """
        import gpujob_report
        for number in range(3):
            gpujob_report.step(samples=4, tokens=100, loss=2.5 - number)
        gpujob_report.progress(0.25, remaining_seconds=90)
        gpujob_report.checkpoint(3)
        found = page()
        for name in ("steps_total", "samples_total", "tokens_total", "progress_ratio", "remaining_seconds", "checkpoint_step"):
            print(name, found[f'gpujob_{name}{{rank="5"}}'])
        print(found['gpujob_training_metric{rank="5",name="loss"}'], found["gpujob_world_size"])
    """
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path, RANK="5", WORLD_SIZE="8")
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == [
        "steps_total 3.0",
        "samples_total 12.0",
        "tokens_total 300.0",
        "progress_ratio 0.25",
        "remaining_seconds 90.0",
        "checkpoint_step 3.0",
        "0.5 8.0",
    ]
    assert [name for name in (tmp_path / "report").iterdir() if name.suffix in (".json", ".lock")] == []


def test_saves_are_timed_and_steps_since_the_last_one_counted(tmp_path: Path) -> None:
    program = """
        import gpujob_report, time
        for number in range(2):
            gpujob_report.step()
        with gpujob_report.saving(1002):
            time.sleep(0.2)
        gpujob_report.checkpoint(1002, seconds=0.01)
        gpujob_report.step()
        try:
            with gpujob_report.saving(1003):
                raise OSError("no space left on device")
        except OSError:
            pass
        found = page()
        print(found['gpujob_checkpoint_step{rank="0"}'], found['gpujob_unsaved_steps{rank="0"}'])
        print(0.2 <= float(found['gpujob_checkpoint_save_seconds{rank="0"}']) < 20)
    """
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path)
    assert (done.stdout, done.stderr) == ("1002.0 1.0\nTrue\n", "")


def test_a_program_that_clears_its_environment_and_leaves_its_folder_is_served(tmp_path: Path) -> None:
    program = """
        import os
        folder = os.environ["GPUJOB_RUN_FOLDER"]
        os.environ.clear()
        os.chdir("/")
        import gpujob_report
        for _ in range(3):
            gpujob_report.step(samples=4)
        os.environ["GPUJOB_RUN_FOLDER"] = folder
        found = page()
        print(found['gpujob_steps_total{rank="5"}'], found["gpujob_world_size"])
        print(found['gpujob_attempt_info{job_uid="u",attempt="2"}'])
    """
    variables = {"GPUJOB_JOB_UID": "u", "GPUJOB_ATTEMPT": "2", "RANK": "5", "WORLD_SIZE": "8"}
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path, **variables)
    assert (done.stdout, done.stderr) == ("3.0 8.0\n1.0\n", "")


def test_a_report_says_of_which_job_and_attempt_it_is(tmp_path: Path) -> None:
    program = "import gpujob_report; gpujob_report.step(); print(*[name for name in page() if 'attempt' in name])"
    done = run(["-c", SCRAPE + program], tmp_path, GPUJOB_JOB_UID="6f1c-1", GPUJOB_ATTEMPT="3")
    assert done.stdout == 'gpujob_attempt_info{job_uid="6f1c-1",attempt="3"}\n'


def test_what_is_posted_for_a_trainer_is_taken_with_the_token_of_its_process_alone(tmp_path: Path) -> None:
    """On the network of a node the loopback address is that of every process of the node."""
    program = """
        import gpujob_report, json, os, stat, urllib.error, urllib.request
        from gpujob_runner.report import process
        from gpujob_runner.report.hooks import trainer
        gpujob_report.step()
        environment = {}
        trainer.listen(environment)
        file = environment["KUBEFLOW_TRAINER_SERVER_TOKEN"]
        secret = open(file).read()
        def posted(token):
            body = json.dumps({"trainerStatus": {"progressPercentage": 40}}).encode()
            asked = urllib.request.Request(environment["KUBEFLOW_TRAINER_SERVER_URL"], body, method="POST")
            if token is not None:
                asked.add_header("Authorization", token)
            try:
                code = urllib.request.urlopen(asked).status
            except urllib.error.HTTPError as error:
                code = error.code
            return code, process.rank.progress and process.rank.progress[0]
        for token in (None, "", "Bearer", "Bearer ", f"Bearer {secret}x", secret, "Bearer \u00e9", f"Bearer {secret}"):
            print(*posted(token))
        print(len(secret), oct(stat.S_IMODE(os.stat(file).st_mode)))
    """
    done = run(["-c", textwrap.dedent(program)], tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [*["401 None"] * 7, "200 0.4", "32 0o600"]


def test_a_taken_port_is_left_alone_with_one_line(tmp_path: Path) -> None:
    program = """
        import time
        from gpujob_runner.report import process
        tries, serve = [], process.metrics_server
        def counted(*arguments):
            tries.append(arguments)
            return serve(*arguments)
        process.metrics_server = counted
        process.SECONDS_BETWEEN_BEATS = process.SECONDS_BETWEEN_BINDS = 0.05
        import gpujob_report
        gpujob_report.step()
        end = time.monotonic() + 60
        while len(tries) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        print(len(tries) >= 3)
    """
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run(["-c", textwrap.dedent(program)], tmp_path, GPUJOB_REPORT_PORT=str(port))
    assert done.stdout == "True\n"
    assert (
        done.stderr
        == f"gpujob: port {port} is not free for the reporter (Address already in use), tried again from time to time\n"
    )


def test_a_folder_that_cannot_be_used_leaves_the_process_alone(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("not a folder")
    port = str(free_port())
    program = (
        f"import gpujob_report; gpujob_report.step(); print(page_when(lambda found: found, '{port}')['gpujob_up'])"
    )
    done = run(["-c", SCRAPE.replace("page", "page_when") + program], tmp_path, GPUJOB_REPORT_PORT=port)
    assert done.stdout == "1.0\n"
    assert done.stderr.startswith("gpujob: the reporter's part 'folder' failed, the program goes on: FileExistsError")


@pytest.mark.parametrize("port", ["", "x", "-1", "70000"])
def test_a_port_that_is_none_harms_nothing(tmp_path: Path, port: str) -> None:
    done = run(["-c", "import gpujob_report; gpujob_report.step(); print('done')"], tmp_path, GPUJOB_REPORT_PORT=port)
    assert done.stdout == "done\n"


def test_a_forked_child_neither_serves_nor_takes_its_parents_figures_away(tmp_path: Path) -> None:
    program = """
        import os, time, gpujob_report
        gpujob_report.step()
        page()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            left = {name.split(".")[-1] for name in os.listdir(os.environ["GPUJOB_RUN_FOLDER"] + "/report")}
            print(left >= {"json", "lock"})
            print(page()["gpujob_ranks_reporting"])
    """
    done = run(["-W", "ignore", "-c", SCRAPE + textwrap.dedent(program)], tmp_path)
    assert (done.stdout, done.stderr) == ("True\n1.0\n", "")


def test_a_hook_that_fails_three_times_is_removed(tmp_path: Path, stand_in: Path) -> None:
    program = """
        import torch
        from gpujob_runner.report import process
        process.Rank.step = None
        optimizer = torch.optim.Optimizer()
        for _ in range(9):
            optimizer.step()
        print(torch.optim.optimizer.HOOKS, page()['gpujob_reporter_failures_total{rank="0",part="steps"}'])
    """
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path, behind=[stand_in])
    assert done.stdout == "{} 3.0\n"
    assert done.stderr.splitlines() == [
        "gpujob: the reporter's part 'steps' failed, the program goes on: TypeError: 'NoneType' object is not callable",
        "gpujob: the reporter's part 'steps' failed 3 times and is switched off, the program goes on",
    ]


def test_a_deepspeed_engine_counts_its_own_steps(tmp_path: Path, stand_in: Path) -> None:
    program = """
        import torch
        from deepspeed.runtime.engine import DeepSpeedEngine
        engine = DeepSpeedEngine(torch.optim.Optimizer(), groups=3)
        for number in range(6):
            engine._take_model_step(overflow=number in (0, 3))
        found = page()
        print(found['gpujob_steps_total{rank="0"}'], found['gpujob_skipped_steps_total{rank="0"}'])
    """
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("4.0 2.0\n", "")


def test_an_exception_of_the_data_loader_reaches_the_program(tmp_path: Path, stand_in: Path) -> None:
    program = """
        import torch
        def broken():
            yield [1]
            raise KeyError("the user's own")
        for batch in torch.utils.data.dataloader._BaseDataLoaderIter(broken()):
            print(batch)
    """
    done = run(["-c", textwrap.dedent(program)], tmp_path, behind=[stand_in])
    assert done.stdout == "[1]\n"
    assert done.stderr.splitlines()[-1] == 'KeyError: "the user\'s own"'


def test_the_optimizer_can_be_left_alone(tmp_path: Path, stand_in: Path) -> None:
    done = run(
        ["-c", "import torch; print(torch.optim.optimizer.HOOKS)"],
        tmp_path,
        behind=[stand_in],
        GPUJOB_REPORT_OPTIMIZER="Off",
    )
    assert (done.stdout, done.stderr) == ("{}\n", "")


def test_what_is_no_scrape_is_answered_and_a_silent_reader_stops_nobody(tmp_path: Path) -> None:
    program = """
        import gpujob_report, socket, urllib.error, urllib.request
        gpujob_report.step()
        page()
        port = int(open(__import__("os").environ["GPUJOB_RUN_FOLDER"] + "/report/port").read())
        silent = socket.create_connection(("127.0.0.1", port))
        for path, method in (("/", "GET"), ("/metrics", "POST"), ("/metrics", "HEAD"), ("/../etc/passwd", "GET")):
            try:
                with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)) as answer:
                    print(answer.status, len(answer.read()))
            except urllib.error.HTTPError as error:
                print(error.code, error.headers["Server"].strip())
    """
    done = run(["-c", SCRAPE + textwrap.dedent(program)], tmp_path)
    assert (done.stdout, done.stderr) == ("404 gpujob\n501 gpujob\n200 0\n404 gpujob\n", "")


HOOKED = "import torch.optim.optimizer; print(len(torch.optim.optimizer.HOOKS))"


def test_a_program_that_only_looks_for_torch_is_watched_when_it_imports_it(tmp_path: Path, stand_in: Path) -> None:
    program = "from importlib.util import find_spec; find_spec('torch.optim.optimizer');"
    for name in ("torch/__init__.py", "torch/optim/__init__.py"):
        (stand_in / name).write_text("def is_grad_enabled(): return True\n")
    done = run(["-c", program + HOOKED], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_an_import_that_fails_first_is_watched_when_it_succeeds(tmp_path: Path, stand_in: Path) -> None:
    (stand_in / "torch" / "__init__.py").write_text("def is_grad_enabled(): return True\n")
    optimizer = stand_in / "torch" / "optim" / "optimizer.py"
    optimizer.write_text(
        "import builtins\nif not hasattr(builtins, 'again'): raise ImportError\n" + optimizer.read_text()
    )
    program = """
        import builtins
        try: import torch.optim
        except ImportError: builtins.again = True
    """
    done = run(["-c", textwrap.dedent(program) + HOOKED], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_finder_that_asks_all_others_asks_not_for_ever(tmp_path: Path, stand_in: Path) -> None:
    program = """
        import sys
        class Curious:
            def find_spec(self, name, path=None, target=None):
                for finder in sys.meta_path:
                    spec = None if finder is self else finder.find_spec(name, path, target)
                    if spec is not None:
                        return spec
        sys.meta_path.insert(1, Curious())
    """
    done = run(["-c", textwrap.dedent(program) + HOOKED], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    "handler",
    ["stop", "functools.partial(stop)", "Program().stop", "Called()"],
    ids=["a function", "a partial", "a method", "an object"],
)
def test_what_a_signal_handler_of_the_program_raises_goes_to_the_program(
    tmp_path: Path, stand_in: Path, handler: str
) -> None:
    """A program that saves its work on the signal to stop: the signal comes while the reporter looks at a batch."""
    program = f"""
        import functools, signal, torch
        class Preempted(Exception): pass
        def stop(number, frame): raise Preempted
        class Program:
            def stop(self, number, frame): raise Preempted
        class Called:
            def __call__(self, number, frame): raise Preempted
        signal.signal(signal.SIGTERM, {handler})
        class Batch:
            @property
            def shape(self):
                signal.raise_signal(signal.SIGTERM)
        optimizer = torch.optim.Optimizer()
        try:
            for batch in torch.utils.data.dataloader._BaseDataLoaderIter([Batch()]):
                optimizer.step()
        except Preempted:
            print("saved")
        import gpujob_runner.report.guard as guard
        print(guard.failures)
    """
    done = run(["-c", textwrap.dedent(program)], tmp_path, behind=[stand_in])
    assert (done.stdout, done.stderr) == ("saved\n{}\n", "")


def test_the_reporter_begins_with_the_first_optimizer(tmp_path: Path, stand_in: Path) -> None:
    """A training that never reaches its first step is seen; so is what it does meanwhile."""
    program = SCRAPE + (
        "from torch.optim import Optimizer\nimport gpujob_report\nOptimizer()\nOptimizer()\n"
        "with gpujob_report.compiling():\n    seen = page()\n"
        'print(seen[\'gpujob_steps_total{rank="0"}\'], seen[\'gpujob_phase{rank="0",phase="Compiling"}\'],'
        " seen['gpujob_still_seconds{rank=\"0\"}'], 'gpujob_slowest_step_seconds{rank=\"0\"}' in seen)\n"
    )
    done = run(["-c", program], tmp_path, behind=[stand_in])
    assert done.stdout == "0.0 1.0 0.0 False\n", done.stderr


def test_the_phases_of_a_program_outside_of_a_job_do_nothing(tmp_path: Path) -> None:
    program = (
        "import gpujob_report\nwith gpujob_report.evaluating(), gpujob_report.compiling():\n    print('goes on')\n"
        "try:\n    with gpujob_report.saving(3):\n        raise ValueError('its own')\nexcept ValueError as error:\n    print(error)\n"
    )
    for port in ("", "0"):
        done = run(["-c", program], tmp_path, GPUJOB_REPORT_PORT=port)
        assert (done.stdout, done.stderr) == ("goes on\nits own\n", "")
