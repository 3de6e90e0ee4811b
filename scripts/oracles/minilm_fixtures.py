#!/usr/bin/env python3
"""Makes tests/data/run/minilm_expected.json: token ids and embeddings of all-MiniLM-L6-v2 by torch and transformers.

Usage: scripts/oracles/minilm_fixtures.py MODEL_DIR > tests/data/run/minilm_expected.json
MODEL_DIR is the folder that scripts/fetch_model.py prints. Needs torch, transformers and tokenizers (CPU is enough).
"""
import hashlib
import json
import pathlib
import sys

import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Texts whose tokens are odd; only their ids are kept.
ODD_TEXTS = [
    "",
    "   \t\n ",
    "UPPER lower MiXeD",
    "don't stop-believing; it's 50% (or more)...",
    "Ångström Øresund Łódź İstanbul Straße ﬁne",
    "e\u0301te\u0301 combining marks",
    "Ελληνικά ΌΧΙ Привет, мир! Ёлка",
    "中文字符混合 English 日本語 カタカナ がぎぐ",
    "한국어 문장",
    "emoji 😀 and arrows → ← “quotes” — dashes",
    "a\u200bb zero width, soft\u00adhyphen, nul\u0000byte",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "x" * 101 + " " + "y" * 100,
    "$1,234.56 @user #tag http://example.org/a?b=c&d=e",
    "word " * 300,
]


def main():
    model_dir = pathlib.Path(sys.argv[1])
    sentences = (ROOT / "tests/data/run/sentences.txt").read_text(encoding="utf-8").splitlines()
    limit = json.loads((model_dir / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()
    model = transformers.BertModel.from_pretrained(str(model_dir), torch_dtype=torch.float32).eval()

    def ids_of(text):
        return tokenizer.encode(text).ids

    def embed(text):
        ids = torch.tensor([ids_of(text)])
        with torch.no_grad():
            hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        pooled = hidden.mean(dim=0)
        return [float(f"{v:.7g}") for v in torch.nn.functional.normalize(pooled, dim=0).tolist()]

    document = {
        "produced_by": "scripts/oracles/minilm_fixtures.py",
        "with": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "model_sha256": hashlib.sha256((model_dir / "model.safetensors").read_bytes()).hexdigest(),
        "max_length": limit,
        "sentences": [{"text": s, "ids": ids_of(s), "embedding": embed(s)} for s in sentences],
        "tokens_only": [{"text": s, "ids": ids_of(s)} for s in ODD_TEXTS],
    }
    # Full vectors for three sentences, the first eight numbers for the others.
    for index, entry in enumerate(document["sentences"]):
        if index not in (0, 4, 6):
            entry["embedding"] = entry["embedding"][:8]
    print(json.dumps(document, ensure_ascii=True, indent=None, separators=(",", ":")).replace('},{"text"', '},\n{"text"'))


if __name__ == "__main__":
    main()
