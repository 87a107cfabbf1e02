"""Tests of @KERNEL@: `pytest --platform a2a3sim --device 0-3` in this folder.

A case is a run of main.py in a process of its own, so that no case sees what another left in the runtime. A case that
needs more devices than `--device` names is skipped; without `--device` every case takes the devices 0, 1, 2 and so on.
"""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def of_this_package(name):
    """A module of this folder; a session of pytest may have those of other packages too, under the same names."""
    spec = importlib.util.spec_from_file_location(f"@KERNEL@_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


layout = of_this_package("layout")
sys.path.insert(0, str(HERE))
main = of_this_package("main")
sys.path.remove(str(HERE))
SUPPORTED = [name for name, why in layout.PLATFORMS.items() if why is None]
# ranks, count (None: sizes are fixed), data, root (None: that of the program)
CASES = (
@CASES@)


@pytest.mark.platforms(SUPPORTED)
@pytest.mark.parametrize("ranks, count, data, root", [pytest.param(*c, marks=pytest.mark.device_count(c[0])) for c in CASES])
def test_every_element_on_every_rank(request, ranks, count, data, root):
    given = request.config.getoption("--device")
    devices = list(range(ranks)) if given is None else main.device_list(str(given))
    if len(devices) < ranks:
        pytest.skip(f"takes {ranks} devices, and --device names {len(devices)}")
    platform = request.config.getoption("--platform") or "a2a3sim"
    runtime = request.config.getoption("--runtime") or "@RUNTIME@"
    command = [sys.executable, "main.py", "-p", platform, "-d", ",".join(map(str, devices[:ranks])), "--data", data]
    command += ["--runtime", runtime]
    command += [] if root is None else ["--root", str(root)]
    command += [] if count is None else ["--count", str(count)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flags, why", @REFUSED@)
def test_what_is_refused(flags, why):
    done = subprocess.run([sys.executable, "main.py", *flags], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 2 and why in done.stderr, done.stdout + done.stderr
