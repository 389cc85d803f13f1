"""Projects outside yoke build with it: from an installed tree, which may be moved, and as a folder
of their own build. Called by CTest; installs what is built already."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def configure(arguments, tree, *options):
    run(arguments.cmake, "-S", HERE, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_MAKE_PROGRAM={arguments.make}", f"-DCMAKE_CXX_COMPILER={arguments.compiler}",
        "-DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON", *options)


def runpath(file):
    found = re.search(r"R(?:UN)?PATH\)\s+Library r(?:un)?path: \[(.*)\]", run("readelf", "-d", file))
    return found.group(1).split(":") if found else []


def find_package(arguments, tmp):
    first, prefix = tmp / "first", tmp / "moved"
    run(arguments.cmake, "--install", arguments.build, "--prefix", first)
    first.rename(prefix)  # nothing in the tree may know where it was
    configure(arguments, tmp / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(arguments.make, "-C", tmp / "build")
    print(run(tmp / "build" / "consumer"), end="")
    print(run(prefix / "bin" / "yoke", "--version"), end="")

    private = [str(h) for h in prefix.rglob("*_impl.h")]
    assert not private, f"private headers are installed: {private}"
    for file in [prefix / "bin" / "yoke", *prefix.glob("lib*/**/libyoke*.so")]:
        inside = [p for p in runpath(file) if Path(p).is_relative_to(arguments.build)]
        assert not inside, f"{file.name} looks for libraries in the build tree: {inside}"


def add_subdirectory(arguments, tmp):
    configure(arguments, tmp / "build", f"-DYOKE_SOURCE={SOURCE}")
    cache = (tmp / "build" / "CMakeCache.txt").read_text()
    assert "CMAKE_BUILD_TYPE:STRING=Debug" in cache, "yoke changed the build type of its user"
    plan = run(arguments.make, "-C", tmp / "build", "-t", "commands", "consumer")
    assert "libyoke.so" in plan, "the library is not part of the user's build"
    assert "gtest" not in plan, "yoke builds its tests for its user"
    if os.environ.get("YOKE_SOAK") == "1":  # all of yoke once more
        run(arguments.make, "-C", tmp / "build", "-j2", "consumer")
        print(run(tmp / "build" / "consumer"), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=["find_package", "add_subdirectory"])
    for option in ("--build", "--cmake", "--make", "--compiler"):
        parser.add_argument(option, required=True, type=Path if option == "--build" else str)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yoke-consumer-") as folder:
        globals()[chosen.way](chosen, Path(folder))
