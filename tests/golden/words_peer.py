#!/usr/bin/env python3
"""Encodes lists of words with Hugging Face tokenizers, as transformers does with
is_split_into_words=True, for tests/tokenizers/words_test.cpp.

    python words_peer.py TOKENIZER_JSON CASES.json RESULTS.json MAX_LENGTH

CASES: a list of lists of words. RESULTS: for each [ids, word ids (-1: none), type ids].
"""

import json
import sys

from tokenizers import Tokenizer

tokenizer_json, cases, results, max_length = sys.argv[1:]
tokenizer = Tokenizer.from_file(tokenizer_json)
tokenizer.no_padding()
tokenizer.no_truncation()
if int(max_length):
    tokenizer.enable_truncation(int(max_length))
with open(cases, encoding="utf-8") as file:
    batch = tokenizer.encode_batch(json.load(file), is_pretokenized=True)
with open(results, "w") as out:
    json.dump([[e.ids, [-1 if w is None else w for w in e.word_ids], e.type_ids] for e in batch], out)
