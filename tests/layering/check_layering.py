"""The house of docs/design.md, checked: which folder includes which, and how large files are.

    check_layering.py [ROOT]       exit 1 on a fault; sizes are only warned about
    check_layering.py --self-test  every rule finds its fault in a bad sample, and none in a good one
"""
import re
import sys
import tempfile
from pathlib import Path

# A folder of yoke/ may include the folders beside its name, and itself.
ALLOWED = {
    "core": [],
    "device": ["core"],
    "checkpoint": ["core"],
    "parallel": ["core", "device"],
    "tokenizers": ["core"],
    "data": ["core", "tokenizers"],
    "models": ["core", "checkpoint", "data"],
    "train": ["core", "device", "checkpoint", "parallel", "tokenizers", "data", "models"],
}

# Rooms outside yoke/: they include <yoke/…> as any user would, and their own files in quotes.
OUTSIDE = ["cli", "examples"]

# Headers of the parts that yoke is made of; cli/ does without (examples have modules of their own).
INNER = re.compile(r"(torch|ATen|c10|caffe2|arrow|parquet|unicode|cuda_runtime|nccl)\b")

# Lines: (header, source); a model is one file a family, an example is to be read at a glance.
SIZES = {"yoke/models": (200, 350), "yoke": (200, 500), "cli": (200, 500), "examples": (60, 60)}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
SOURCES = {".h", ".cpp", ".cu", ".cuh"}


def includes(text):
    """[(line, file, in quotes)]"""
    return [(text.count("\n", 0, m.start()) + 1, m.group(1) or m.group(2), m.group(1) is not None)
            for m in INCLUDE.finditer(text)]


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.files = {}
        for top in ["yoke", *OUTSIDE]:
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SOURCES:
                    self.files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
        self.faults, self.warnings = [], []

    def fault(self, name, line, text):
        self.faults.append(f"{name}:{line}: {text}")

    def check(self):
        for name, text in self.files.items():
            for line, target, quoted in includes(text):
                if name.startswith("yoke/"):
                    self.inside(name, line, target, quoted)
                else:
                    self.outside(name, line, target, quoted)
            self.size(name, text)
        self.cycles()
        return self

    def inside(self, name, line, target, quoted):
        """An include of a file in yoke/."""
        if target == "torch/torch.h":
            self.fault(name, line, "<torch/torch.h> takes 20 s to compile: include the part needed")
        if not quoted and not target.startswith("yoke/"):
            return
        if not quoted or not target.startswith("yoke/"):
            self.fault(name, line, f'{target}: inside yoke/ it is "yoke/folder/file.h", in quotes')
            return
        if target not in self.files:
            self.fault(name, line, f"{target}: there is no such file")
            return
        own, other = name.split("/")[1], target.split("/")[1]
        if name == "yoke/yoke.h" or own == other:
            return
        if own not in ALLOWED:
            self.fault(name, line, f"yoke/{own}: the table of folders does not know it")
        elif other not in ALLOWED[own]:
            may = ", ".join(ALLOWED[own]) or "no other folder"
            self.fault(name, line, f"{own} may not include {other} (it may include {may})")
        if target.endswith("_impl.h"):
            self.fault(name, line, f"{target} is private to yoke/{other}")

    def outside(self, name, line, target, quoted):
        """An include of a file in cli/ or examples/."""
        top = name.split("/")[0]
        if target.startswith("yoke/"):
            if quoted:
                self.fault(name, line, f"<{target}>: {top}/ includes yoke as its users do")
            if target not in self.files:
                self.fault(name, line, f"{target}: there is no such file")
            if target.endswith("_impl.h"):
                self.fault(name, line, f"{target} is private to its folder")
        elif quoted and target.split("/")[0] != top:
            self.fault(name, line, f'"{target}": {top}/ includes its own files and <yoke/…> only')
        elif quoted and target not in self.files:
            self.fault(name, line, f"{target}: there is no such file")
        elif top == "cli" and INNER.match(target):
            self.fault(name, line, f"<{target}>: cli/ reaches it through <yoke/…> only")

    def size(self, name, text):
        if re.search(r"(generated|[Mm]ade) by [\w./]+\.py", "".join(text.splitlines(True)[:5])):
            return  # tables that a script has written
        limit = next(v for k, v in SIZES.items() if name.startswith(k + "/"))
        limit = limit[0 if name.endswith("h") else 1]
        lines = text.count("\n")
        if lines > limit:
            self.warnings.append(f"{name}: {lines} lines, past {limit}: is it one concern?")

    def cycles(self):
        """Headers that include one another in a ring."""
        graph = {name: [t for _, t, _ in includes(text) if t in self.files]
                 for name, text in self.files.items()}
        done, path = set(), []

        def visit(name):
            if name in path:
                ring = path[path.index(name):] + [name]
                self.fault(name, 1, "includes itself: " + " > ".join(ring))
            elif name not in done:
                path.append(name)
                for target in graph[name]:
                    visit(target)
                path.pop()
                done.add(name)

        for name in graph:
            visit(name)


def self_test():
    good = {
        "yoke/yoke.h": '#include "yoke/train/trainer.h"\n',
        "yoke/core/error.h": "#include <string>\n",
        "yoke/core/table.cpp": "// Made by tests/golden/make_table.py\n" + "\n" * 600,
        "yoke/data/rows_impl.h": '#include "yoke/core/error.h"\n',
        "yoke/data/rows.cpp": '#include "yoke/data/rows_impl.h"\n#include <arrow/api.h>\n',
        "yoke/train/trainer.h": '#include "yoke/core/error.h"\n',
        "cli/main.cpp": '#include <yoke/yoke.h>\n#include "cli/main.h"\n',
        "cli/main.h": "#include <string>\n",
        "examples/own.cpp": "#include <torch/torch.h>\n#include <yoke/yoke.h>\n",
    }
    bad = {  # file, text, what must be said about it
        "core may not include train": ("yoke/core/a.h", '#include "yoke/train/trainer.h"\n'),
        "models may not include tokenizers": ("yoke/models/a.h", '#include "yoke/tokenizers/t.h"\n'),
        "data may not include models": ("yoke/data/a.cpp", '  #  include "yoke/models/m.h"\n'),
        "in quotes": ("yoke/train/a.h", "#include <yoke/core/error.h>\n"),
        "it is \"yoke/folder/file.h\"": ("yoke/core/b.h", '#include "error.h"\n'),
        "no such file": ("yoke/core/c.h", '#include "yoke/core/none.h"\n'),
        "does not know it": ("yoke/attic/a.h", '#include "yoke/core/error.h"\n'),
        "is private to yoke/data": ("yoke/train/b.h", '#include "yoke/data/rows_impl.h"\n'),
        "is private to its folder": ("cli/c.cpp", "#include <yoke/data/rows_impl.h>\n"),
        "takes 20 s": ("yoke/train/c.cpp", "#include <torch/torch.h>\n"),
        "as its users do": ("cli/a.cpp", '#include "yoke/yoke.h"\n'),
        "through <yoke/…> only": ("cli/b.cpp", "#include <ATen/core/Tensor.h>\n"),
        "its own files": ("examples/a.cpp", '#include "cli/main.h"\n'),
        "includes itself": ("yoke/core/ring.h", '#include "yoke/core/ring.h"\n'),
    }
    sized = {
        "past 200": ("yoke/core/long.h", "\n" * 201),
        "past 500": ("yoke/train/long.cpp", "\n" * 501),
        "past 350": ("yoke/models/long.cpp", "\n" * 351),
        "past 60": ("examples/long.cpp", "\n" * 61),
    }
    others = {"yoke/tokenizers/t.h": "\n", "yoke/models/m.h": "\n"}

    def found(files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**good, **others, **files}.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            checker = Checker(root).check()
            return checker.faults, checker.warnings

    failures = []
    if any(found({})):
        failures.append(f"the good sample: {found({})}")
    for samples, which in ((bad, 0), (sized, 1)):
        for expected, (name, text) in samples.items():
            said = found({name: text})
            if len(said[which]) != 1 or expected not in said[which][0] or said[1 - which]:
                failures.append(f"{name} with {text!r:.60}: expected \"{expected}\", got {said}")
    for folder in ALLOWED:  # an arrow and its reverse, over any number of folders
        reached, todo = set(), list(ALLOWED[folder])
        while todo:
            reached.add(todo[-1])
            todo += [t for t in ALLOWED[todo.pop()] if t not in reached]
        if folder in reached:
            failures.append(f"the table lets {folder} include itself over others")
    print("\n".join(failures) or f"layering self-test: {len(bad) + len(sized)} faults found")
    return bool(failures)


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    root = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parent.parent.parent
    checker = Checker(root).check()
    for warning in checker.warnings:
        print(f"warning: {warning}")
    for fault in checker.faults:
        print(fault)
    print(f"layering: {len(checker.files)} files, {len(checker.faults)} faults")
    return not checker.files or bool(checker.faults)


if __name__ == "__main__":
    sys.exit(main())
