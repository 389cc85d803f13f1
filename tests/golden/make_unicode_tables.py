#!/usr/bin/env python3
"""Writes yoke/tokenizers/unicode_tables.cpp: what the peer, Hugging Face tokenizers, does with each
code point. It mixes several versions of Unicode (categories of 8.0, decompositions of 11.0, lower
case and white space of the Rust it was built with), so the tables are asked from it, code point by
code point, and neither the version of ICU nor the locale of a machine can change a token.

    python tests/golden/make_unicode_tables.py        (tokenizers 0.23.3; half a minute)

A property is probed with the smallest pipeline that shows it. What is left to ICU at run time are
the values of decompositions and combining classes, which Unicode's stability policy freezes.
"""

import pathlib
import subprocess
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TARGET = pathlib.Path(__file__).resolve().parents[2] / "yoke" / "tokenizers" / "unicode_tables.cpp"


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


def count_pieces(pre_tokenizer, text):
    return len(pre_tokenizer.pre_tokenize_str(text))


def ranges(points):
    """[(first, last)]; the surrogates, which no text holds, never split a range."""
    runs = []
    for c in points:
        if runs and (c == runs[-1][1] + 1 or (c, runs[-1][1]) == (0xE000, 0xD7FF)):
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def probe():
    clean, strip = bert(clean_text=True), bert(strip_accents=True)
    chinese = bert(handle_chinese_chars=True)
    marks, nfd = normalizers.StripAccents().normalize_str, normalizers.NFD().normalize_str
    whitespace, words = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Whitespace()
    punctuation = pre_tokenizers.BertPreTokenizer()
    single = Tokenizer(models.WordLevel({"u": 0}, unk_token="u"))
    single.add_tokens([AddedToken("<q>", single_word=True, normalized=False)])

    table = {name: [] for name in ("removed", "space", "punctuation", "nonspacing_mark", "mark",
                                   "word", "chinese", "decomposes", "reorders")}
    for c in POINTS:
        x = chr(c)
        decomposes = nfd(x) != x
        is_word = len(words.pre_tokenize_str("a" + x + "a")) == 1
        holds = {
            "removed": clean("a" + x + "b") == "ab",
            "space": count_pieces(whitespace, "a" + x + "b") == 2,
            "punctuation": count_pieces(punctuation, "a" + x + "b") == 3,
            "nonspacing_mark": not decomposes and strip("a" + x) == "a",
            "mark": marks("a" + x) == "a",
            "word": is_word,
            "chinese": chinese(x) == f" {x} ",
            "decomposes": decomposes,
            "reorders": not decomposes and (c == 0x345 or nfd("a\u0345" + x) == "a" + x + "\u0345"),
        }
        # \w of the pre-tokeniser and of the single_word rule are one table.
        assert is_word == (1 not in single.encode(x + "<q>").ids), hex(c)
        for name, value in holds.items():
            if value:
                table[name].append(c)
    return table


def lower_runs():
    """[(first, last, step, delta)]: each step-th code point of the run moves by delta."""
    lower = normalizers.Lowercase().normalize_str
    runs = []
    for c in POINTS:
        x = lower(chr(c))
        if x == chr(c):
            continue
        if len(x) > 1:
            assert (c, x) == (0x130, "i\u0307")  # the one that becomes two; in the code by hand
            continue
        delta = ord(x) - c
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            if c - last in (1, 2) and (first == last or c - last == step):
                runs[-1] = [first, c, c - last, delta]
                continue
        runs.append([c, c, 1, delta])
    return runs


def write(table, lower):
    lines = [
        f"// Made by tests/golden/make_unicode_tables.py from tokenizers {tokenizers.__version__};",
        "// not edited by hand. What each property means is said in unicode.h.",
        '#include "yoke/tokenizers/unicode_tables.h"', "", "namespace yoke::unicode_tables {",
        "namespace {", "",
    ]
    for name, points in table.items():
        body = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points))
        lines.append(f"constexpr Range {name}_ranges[] = {{{body}}};\n")
    body = ", ".join(f"{{0x{a:X}, 0x{b:X}, {step}, {delta}}}" for a, b, step, delta in lower)
    lines += [f"constexpr LowerRun lower_ranges[] = {{{body}}};", "", "}  // namespace", ""]
    for name in table:
        lines.append(f"const std::span<const Range> {name}({name}_ranges);")
    lines.append("const std::span<const LowerRun> lower(lower_ranges);")
    lines += ["", "}  // namespace yoke::unicode_tables", ""]
    TARGET.write_text("\n".join(lines))
    subprocess.run(["clang-format", "-i", str(TARGET)], check=True)


if __name__ == "__main__":
    if tokenizers.__version__ != "0.23.3":
        print(f"note: tokenizers is {tokenizers.__version__}, not 0.23.3", file=sys.stderr)
    found = probe()
    write(found, lower_runs())
    for name, points in found.items():
        print(f"{name}: {len(points)} code points in {len(ranges(points))} ranges")
