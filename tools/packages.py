"""Installs what yoke needs and this machine lacks: Debian packages, and wheels into .venv.

The lists are in packages/; what is there already is left alone, and when nothing is missing nothing
is asked of the network. Needs Python 3.9 and nothing outside its standard library.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMPS = ROOT / ".cache" / "dev"

# The least Python that the pinned wheels accept.
PYTHON = (3, 11)


class Failure(Exception):
    """Something that the user has to know: one line, with what to try."""


def output(*command):
    """What a command prints, or an empty string when it is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def version(text):
    """(12, 2, 0) of "4:12.2.0-3": the numbers of an upstream version, for comparing."""
    found = re.search(r"(?:\d+:)?(\d+(?:\.\d+)*)", text)
    return tuple(map(int, found.group(1).split("."))) if found else ()


def stamp(name, *files):
    """(path, text) of the stamp that says: these files have been installed."""
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    return STAMPS / name, f"{digest} {VENV.resolve()}\n"


def is_stamped(mark):
    path, text = mark
    return path.exists() and path.read_text() == text


def put_stamp(mark):
    path, text = mark
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---- Debian packages --------------------------------------------------------------------------

def pythons():
    """Interpreters that can make the virtual environment: new enough, with pip at hand."""
    names = [sys.executable, "/usr/bin/python3", "python3.11", "python3.12", "python3.13"]
    for name in filter(None, map(shutil.which, names)):
        said = output(name, "-c", "import sys, ensurepip, venv; print(*sys.version_info[:2])")
        if said and tuple(map(int, said.split())) >= PYTHON:
            yield name


def gxx_version():
    return output("g++", "-dumpfullversion", "-dumpversion")


def present(package):
    """Version of a package as installed, by apt or by hand where that is easy to see; or ""."""
    by_hand = {
        "g++": lambda: "99" if os.environ.get("CXX") else gxx_version(),
        "cmake": lambda: output("cmake", "--version"),
        "ninja-build": lambda: output("ninja", "--version"),
        "python3-venv": lambda: "3.11" if VENV_PYTHON.exists() or any(pythons()) else "",
    }
    if package in by_hand:
        return by_hand[package]()
    if package.startswith("pip:"):
        tool = VENV / "bin" / package[4:]
        return output(str(tool), "--version") if tool.exists() else ""
    said = output("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package)
    return said.partition(" ")[2] if said.startswith("installed ") else ""


def offered(package):
    """Version of a package that apt would install, or ""."""
    found = re.search(r"Candidate: (\S+)", output("apt-cache", "policy", package))
    return found.group(1) if found and found.group(1) != "(none)" else ""


def needs():
    """[(optional, line, [(package, least version)])] of packages/apt.txt."""
    result = []
    for line in (PACKAGES / "apt.txt").read_text().splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        optional = line.startswith("optional ")
        choices = []
        for choice in line.removeprefix("optional ").split("|"):
            name, _, least = choice.partition(">=")
            choices.append((name.strip(), version(least)))
        result.append((optional, line, choices))
    return result


def is_met(choices):
    return any(v and version(v) >= least for v, least in ((present(p), m) for p, m in choices))


def apt_get(*arguments):
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments]
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            raise Failure("packages are missing and there is neither root nor sudo. "
                          f"Try, as root: {' '.join(command)}")
        command = ["sudo", "DEBIAN_FRONTEND=noninteractive", *command]
    print("+", " ".join(command), flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(command, env=env, check=False).returncode != 0:
        raise Failure(f"{' '.join(command)} failed, see above. "
                      "Try: apt-get update, or a mirror that answers")


def install_apt():
    """Installs the missing needs of apt.txt; returns the wheels to take in place of some."""
    mark = stamp("apt", PACKAGES / "apt.txt")
    missing = [need for need in needs() if not is_met(need[2])]
    required = [need for need in missing if not need[0]]
    if not required and (is_stamped(mark) or not missing):
        return []
    if not shutil.which("apt-get"):
        if required:
            raise Failure("there is no apt-get here. Install by your system's own means: "
                          + "; ".join(line for _, line, _ in required))
        return []
    if not required and os.geteuid() != 0:
        return []  # nobody is asked for a password for the sake of a faster linker
    apt_get("update", "-qq")
    wanted, wheels = [], []
    for optional, line, choices in missing:
        for package, least in choices:
            if package.startswith("pip:"):
                wheels.append(package[4:])
                break
            if (candidate := offered(package)) and version(candidate) >= least:
                wanted.append(package)
                break
        else:
            if not optional:
                raise Failure(f"packages/apt.txt: no package of this system meets \"{line}\". "
                              "Try: Debian 12, Ubuntu 22.04 or newer")
    if wanted:
        apt_get("install", "-y", "-qq", "--no-install-recommends", *wanted)
    put_stamp(mark)
    return wheels


# ---- wheels -----------------------------------------------------------------------------------

def pip(what, *arguments):
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--disable-pip-version-check",
               "--no-input", "--quiet", *arguments]
    print(f"+ pip install {what}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise Failure(f"pip could not install {what}, see above. "
                      "Try: the same again, or more space on this disk (the tests need 8 GB)")


def make_venv():
    if VENV_PYTHON.exists():
        return
    python = next(pythons(), None)
    if not python:
        raise Failure(f"no Python >= {'.'.join(map(str, PYTHON))} with the modules venv and "
                      "ensurepip. Try: apt-get install python3-venv (or python3.11-venv)")
    print(f"+ {python} -m venv .venv", flush=True)
    if subprocess.run([python, "-m", "venv", str(VENV)], check=False).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise Failure(f"{python} could not make .venv, see above. "
                      "Try: apt-get install python3-venv")


def pinned(tool):
    """The line of pip-tools.txt for a tool."""
    for line in (PACKAGES / "pip-tools.txt").read_text().splitlines():
        if line.startswith(tool + "=="):
            return line
    raise Failure(f"packages/pip-tools.txt: no version of {tool}")


def install_tool(tool):
    """Path of a tool at its pinned version, in .venv."""
    path = VENV / "bin" / tool
    want = pinned(tool)
    if version(output(str(path), "--version").rpartition("version")[2]) != version(
            want.partition("==")[2]):
        make_venv()
        pip(want, want)
    return str(path)


def has_gpu():
    """Whether an NVIDIA driver is here, so that the GPU's libraries are worth their 4 GB."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def install(tier):
    """Everything for a tier: "build" (a CPU's build and demo) or "test" (Python peers, GPUs)."""
    wheels = install_apt()
    make_venv()
    for tool in wheels:
        install_tool(tool)
    light = PACKAGES / "pip-build.txt"
    full, held = PACKAGES / "pip-test.txt", PACKAGES / "pip-constraints.txt"
    mark = stamp("pip-build", light)
    if not is_stamped(mark):
        pip("-r packages/pip-build.txt --no-deps", "--no-deps", "-r", str(light))
        put_stamp(mark)
    if tier == "test" or has_gpu():
        mark = stamp("pip-test", light, full, held)
        if not is_stamped(mark):
            pip("-r packages/pip-test.txt -c packages/pip-constraints.txt",
                "-r", str(full), "-c", str(held))
            put_stamp(mark)


def tool(name, least=()):
    """Path of a build tool: the system's where it is new enough, else .venv's."""
    found = shutil.which(name)
    if found and version(output(found, "--version")) >= least:
        return found
    return str(VENV / "bin" / name)


def compiler():
    """The C++ compiler to name to CMake, or None where its own choice is right."""
    if os.environ.get("CXX") or version(gxx_version()) >= (12,):
        return None
    return shutil.which("g++-12")
