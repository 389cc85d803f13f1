#!/usr/bin/env python3
"""What transformers' AutoTokenizer makes of folders, one JSON line each, for tests/tokenizers.

    python auto_tokenizer_peer.py TEXT FOLDER…
"""

import json
import sys

from transformers import AutoTokenizer

text, folders = sys.argv[1], sys.argv[2:]
for folder in folders:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    print(json.dumps({
        "ids": tokenizer(text)["input_ids"], "len": len(tokenizer),
        "special": [tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id,
                    tokenizer.unk_token_id, tokenizer.mask_token_id],
        "model_max_length": tokenizer.model_max_length if tokenizer.model_max_length < 1e9 else 0,
    }))
