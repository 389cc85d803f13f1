"""Words and labels as transformers' examples tokenise and align them (run_ner.py): the first piece
of a word has its label, everything else -100.

    python token_labels_peer.py FOLDER ROWS.jsonl MAX_LENGTH…     for each length one JSON line a row
"""
import json
import sys

from transformers import AutoTokenizer

folder, rows, *lengths = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
for max_length in lengths:
    for line in open(rows, encoding="utf-8"):
        row = json.loads(line)
        encoded = tokenizer(row["tokens"], truncation=True, max_length=int(max_length), is_split_into_words=True)
        labels, before = [], None
        for word in encoded.word_ids():
            labels.append(-100 if word is None or word == before else row["labels"][word])
            before = word
        print(json.dumps({"input_ids": encoded["input_ids"], "labels": labels}))
