#!/usr/bin/env python3
"""Hugging Face tokenizers on the lines that tokenizer_bench.cpp encodes: MB/s and time to load, in CPU time.

    TOKENIZERS_PARALLELISM=false python tokenizer_peer.py FOLDER FILE
"""

import sys
import time

from tokenizers import Tokenizer

folder, file = sys.argv[1:]
lines = [line.split("\t")[0] for line in open(file, encoding="utf-8").read().split("\n")[:-1]]
start = time.process_time()
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
loaded = time.process_time() - start
tokenizer.no_padding()
tokenizer.no_truncation()
size = sum(len(line.encode()) for line in lines)
best = 1e9
for _ in range(3):
    start = time.process_time()
    tokenizer.encode_batch_fast(lines)
    best = min(best, time.process_time() - start)
print(f"load {loaded * 1e3:.1f} ms, encode_batch_fast {size / best / 1e6:.2f} MB/s")
