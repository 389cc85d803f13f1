"""The table of ./dev soak, out of the report that CTest writes.

A test says what it counted in lines such as "soak: 100000 random strings" on its output, which are
added up. Tests that say nothing share one row for each folder.
"""
import datetime
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

HEADER = """# Soak

The tests with large counts: `./dev soak` runs all tests with `YOKE_SOAK=1` and writes this file. A
test that counts something prints it in lines such as `soak: 100000 random strings`, which are added
up.

"""


def sums(counts):
    """"300 files, 20 texts" of [("100", "files"), ("20", "texts"), ("200", "files")]."""
    total = {}
    for number, things in counts:
        total[things] = total.get(things, 0) + int(number)
    return ", ".join(f"{number:,} {things}" for things, number in total.items())


def rows(report):
    """[(test, count, result, seconds)] of a JUnit report."""
    result, folders = [], {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name, seconds = case.get("name"), float(case.get("time") or 0)
        counts = sums(re.findall(r"^soak: (\d+) (.+)$", case.findtext("system-out") or "",
                                 re.MULTILINE))
        state = {"run": "passed", "fail": "FAILED"}.get(case.get("status"), "skipped")
        if counts or state == "FAILED":
            result.append((name, counts, state, seconds))
        else:
            passed, skipped, total = folders.get(name.split(".")[0], (0, 0, 0.0))
            folders[name.split(".")[0]] = (passed + (state == "passed"),
                                           skipped + (state == "skipped"), total + seconds)
    for folder, (passed, skipped, seconds) in sorted(folders.items()):
        state = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
        result.append((f"{folder}, other tests", "", state, seconds))
    return result


def table(report):
    if not report.exists():
        return "no report: CTest did not come to its end"
    lines = ["| test | count | result | seconds |", "|---|---|---|---|"]
    lines += [f"| {name} | {count} | {state} | {seconds:.1f} |"
              for name, count, state, seconds in rows(report)]
    return "\n".join(lines)


def write(path, text, root):
    git = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty"],
                         capture_output=True, text=True, check=False).stdout.strip()
    today = datetime.date.today().isoformat()
    cores = len(os.sched_getaffinity(0))
    path.write_text(f"{HEADER}Last run: {today}, commit {git or 'unknown'}, {cores} cores.\n\n"
                    f"{text}\n")
    print(f"written: {path.relative_to(root)}")
