"""Plant known mistakes in a copy of the package, one by one, and see who notices.

    python tests/plant_mistakes.py                # all of them, about a quarter of an hour on two cores
    python tests/plant_mistakes.py softmax norm   # those whose name holds one of these words

For each mistake two runs, each on its own: the notebooks (strict comparison) without the unit tests, and the
unit tests without the notebooks. Both must fail. The exit status counts the mistakes that one of them missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
UNIT_TESTS = [
    "test_patchify",
    "test_embeddings",
    "test_attention",
    "test_encoder",
    "test_model",
    "test_parity",
    "test_errors",
]


class Mistake(NamedTuple):
    """One mistake: what it is called, the notebook that teaches the part, and what to replace in which file."""

    name: str
    notebook: str
    file: str
    right: str
    wrong: str
    also: tuple[tuple[str, str], ...] = ()  # further replacements in the same file


PATCHIFY = [
    Mistake(
        "a bare reshape: rows of the image, not patches",
        "01",
        "patchify.py",
        "return blocks.permute(0, 2, 4, 1, 3, 5).reshape(",
        "return images.reshape(",
    ),
    Mistake(
        "rows and columns of the grid swapped",
        "01",
        "patchify.py",
        "return blocks.permute(0, 2, 4, 1, 3, 5)",
        "return blocks.permute(0, 4, 2, 1, 3, 5)",
    ),
    Mistake(
        "wrong order back",
        "01",
        "patchify.py",
        "blocks = patches.reshape(B, h, w, C, P, Q)",
        "blocks = patches.reshape(B, w, h, C, P, Q).transpose(1, 2)",
    ),
    Mistake(
        "a patch flattened as (row, column, channel)",
        "01",
        "patchify.py",
        "return blocks.permute(0, 2, 4, 1, 3, 5)",
        "return blocks.permute(0, 2, 4, 3, 5, 1)",
    ),
]

EMBEDDINGS = [
    Mistake(
        "conv in and out channels swapped",
        "02",
        "embeddings.py",
        "projection = nn.Conv2d(in_channels, embed_dim,",
        "projection = nn.Conv2d(embed_dim, in_channels,",
    ),
    Mistake(
        "class token sized by a batch of 8",
        "02",
        "embeddings.py",
        "self.class_token = nn.Parameter(torch.zeros(1, 1, config.embed_dim))",
        "self.class_token = nn.Parameter(torch.zeros(8, 1, config.embed_dim))",
    ),
    Mistake(
        "class token made inside forward",
        "02",
        "embeddings.py",
        "class_token = self.class_token.expand(len(images), -1, -1)",
        "class_token = nn.Parameter(torch.zeros_like(self.class_token)).expand(len(images), -1, -1)",
    ),
    Mistake(
        "one position vector for all tokens",
        "02",
        "embeddings.py",
        "return self.dropout(tokens + self.position())",
        "return self.dropout(tokens + self.position()[:1])",
    ),
    Mistake(
        "positions never added",
        "02",
        "embeddings.py",
        "return self.dropout(tokens + self.position())",
        "return self.dropout(tokens)",
    ),
    Mistake(
        "the class token gets no position",
        "02",
        "embeddings.py",
        "tokens = torch.cat([class_token, patches], dim=1)",
        "tokens = torch.cat([class_token - self.position()[:1], patches], dim=1)",
    ),
    Mistake(
        "class token appended last",
        "02",
        "embeddings.py",
        "tokens = torch.cat([class_token, patches], dim=1)",
        "tokens = torch.cat([patches, class_token], dim=1)",
    ),
    Mistake(
        "sin-cos with rows and columns swapped",
        "02",
        "positions.py",
        "return torch.cat([rows, columns], dim=2)",
        "return torch.cat([columns, rows], dim=2)",
    ),
    Mistake(
        "a second linear layer after the patch projection",
        "02",
        "embeddings.py",
        "self.dropout = nn.Dropout(config.dropout)",
        "self.dropout = nn.Sequential(nn.Linear(config.embed_dim, config.embed_dim), nn.Dropout(config.dropout))",
    ),
    Mistake(
        "D taken to be C·P²",
        "02",
        "embeddings.py",
        "return PatchEmbedding(config.patch_size, config.in_channels, config.embed_dim, config.image_size)",
        "return PatchEmbedding(config.patch_size, config.in_channels, config.patch_dim, config.image_size)",
    ),
]

ATTENTION = [
    Mistake("no scale", "03", "attention.py", " / math.sqrt(q.shape[-1])", ""),
    Mistake("no scale in the fused kernel", "03", "attention.py", "dropout_p=dropout", "scale=1.0, dropout_p=dropout"),
    Mistake(
        "scale by the number of tokens, not head_dim",
        "03",
        "attention.py",
        "math.sqrt(q.shape[-1])",
        "math.sqrt(q.shape[-2])",
    ),
    Mistake(
        "scale after the softmax",
        "03",
        "attention.py",
        "weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)",
        "weights = (q @ k.transpose(-2, -1)).softmax(dim=-1) / math.sqrt(q.shape[-1])",
    ),
    Mistake("softmax over the queries", "03", "attention.py", ".softmax(dim=-1)", ".softmax(dim=-2)"),
    Mistake(
        "softmax over the heads", "03", "attention.py", ".softmax(dim=-1)", ".softmax(dim=-3 if q.ndim > 3 else -2)"
    ),
    Mistake(
        "heads split by view without a transpose",
        "03",
        "attention.py",
        "return tokens.unflatten(2, (num_heads, -1)).transpose(1, 2)",
        "return tokens.reshape(len(tokens), num_heads, tokens.shape[1], -1)",
    ),
    Mistake(
        "heads merged by view without a transpose",
        "03",
        "attention.py",
        "return heads.transpose(1, 2).flatten(2)",
        "return heads.reshape(len(heads), heads.shape[2], -1)",
    ),
    Mistake(
        "heads see only their slice of the input",
        "03",
        "attention.py",
        "        q, k, v = self.qkv(tokens).chunk(3, dim=2)",
        "        mask = torch.block_diag(*[torch.ones(self.head_dim, self.head_dim)] * self.num_heads).repeat(3, 1)\n"
        "        qkv = F.linear(tokens, self.qkv.weight * mask.to(tokens), self.qkv.bias)\n"
        "        q, k, v = qkv.chunk(3, dim=2)",
        (("import torch.nn.functional as F", "import torch\nimport torch.nn.functional as F"),),
    ),
    Mistake(
        "attention across the batch",
        "03",
        "attention.py",
        "mixed, _ = self.strategy(q, k, v)",
        "mixed = self.strategy(*(part.transpose(0, 2) for part in (q, k, v)))[0].transpose(0, 2)",
    ),
    Mistake(
        "q and k from the un-normalised input",
        "04",
        "encoder.py",
        "z = z + self.drop_path1(self.attention(self.norm1(z)))",
        "z = z + self.drop_path1(self.attention(z))",
    ),
]

ENCODER = [
    Mistake(
        "residual taken from the normed input",
        "04",
        "encoder.py",
        "z = z + self.drop_path1(self.attention(self.norm1(z)))",
        "z = self.norm1(z) + self.drop_path1(self.attention(self.norm1(z)))",
    ),
    Mistake(
        "post-norm",
        "04",
        "encoder.py",
        "return z + self.drop_path2(self.mlp(self.norm2(z)))",
        "return self.norm2(z + self.drop_path2(self.mlp(z)))",
    ),
    Mistake("ReLU in place of GELU", "04", "encoder.py", "nn.GELU()", "nn.ReLU()"),
    Mistake("tanh GELU in place of exact GELU", "04", "encoder.py", "nn.GELU()", 'nn.GELU(approximate="tanh")'),
    Mistake(
        "one LayerNorm shared by both places",
        "04",
        "encoder.py",
        "self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)",
        "self.norm2 = self.norm1",
    ),
    Mistake("LayerNorm's default eps", "04", "encoder.py", "norm_eps: float = 1e-6", "norm_eps: float = 1e-5"),
    Mistake(
        "blocks in a Python list",
        "05",
        "encoder.py",
        "class Encoder(nn.Sequential):",
        "class Encoder(nn.Module):\n"
        "    def forward(self, z):\n"
        "        for block in self.blocks:\n"
        "            z = block(z)\n"
        "        return z\n\n"
        "    def __getitem__(self, i):\n"
        "        return self.blocks[i]\n\n"
        "    def __len__(self):\n"
        "        return len(self.blocks)\n",
        (("super().__init__(\n            *(", "super().__init__()\n        self.blocks = list(\n            ("),),
    ),
    Mistake(
        "dropout missing after the MLP",
        "04",
        "encoder.py",
        "self.dropout2 = nn.Dropout(dropout)",
        "self.dropout2 = nn.Identity()",
    ),
    Mistake(
        "the second branch reuses the first's drop path",
        "04",
        "encoder.py",
        'self.drop_path2 = StochasticDepth(drop_path, mode="row")',
        "self.drop_path2 = self.drop_path1",
    ),
    Mistake(
        "drop path for the whole batch",
        "04",
        "encoder.py",
        'self.drop_path1 = StochasticDepth(drop_path, mode="row")',
        'self.drop_path1 = StochasticDepth(drop_path, mode="batch")',
    ),
]

MODEL = [
    Mistake("softmax inside the model", "05", "model.py", "return self.head(y)", "return self.head(y).softmax(dim=1)"),
    Mistake("final LayerNorm missing", "05", "model.py", "y = self.pool(self.norm(z))", "y = self.pool(z)"),
    Mistake("head reads the last token", "05", "model.py", "return tokens[:, 0]", "return tokens[:, -1]"),
    Mistake(
        "mean over the class token too",
        "05",
        "model.py",
        "return tokens[:, 1:].mean(dim=1)",
        "return tokens.mean(dim=1)",
    ),
    Mistake(
        "mean over everything but the last",
        "05",
        "model.py",
        "return tokens[:, 1:].mean(dim=1)",
        "return tokens[:, :-1].mean(dim=1)",
    ),
]

MISTAKES = PATCHIFY + EMBEDDINGS + ATTENTION + ENCODER + MODEL


def plant(mistake: Mistake, copy: Path) -> None:
    """Put the mistake into the copy. It must fit exactly one place, or the table would be about something else."""
    file = copy / "vit_tutorial" / mistake.file
    text = file.read_text(encoding="utf-8")
    for right, wrong in ((mistake.right, mistake.wrong), *mistake.also):
        if text.count(right) != 1:
            raise SystemExit(f"{mistake.name}: {text.count(right)} places in {mistake.file} hold {right!r}")
        text = text.replace(right, wrong)
    file.write_text(text, encoding="utf-8")


def first_failure(copy: Path, *targets: str) -> str:
    """Run pytest in the copy, one target after the other, until something fails; return what failed, or nothing."""
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *targets]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if result.returncode == 0:
        return ""
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else f"pytest stopped: {result.stdout[-200:]}"


def look_for(mistake: Mistake) -> bool:
    """Plant one mistake, print who notices it, and tell whether both do."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", "benchmarks")
        shutil.copytree(ROOT, copy, ignore=ignored)
        plant(mistake, copy)
        # The notebook that teaches the part first, since it is the likeliest to notice.
        notebooks = sorted(
            (copy / "notebooks").glob("[0-9]*.ipynb"), key=lambda p: (p.name[:2] != mistake.notebook, p.name)
        )
        by_notebook = first_failure(copy, *(str(path.relative_to(copy)) for path in notebooks))
        by_test = first_failure(copy, *(f"tests/{name}.py" for name in UNIT_TESTS))
    seconds = time.perf_counter() - start
    print(f"{mistake.name:50} | {by_notebook or 'MISSED':45} | {by_test or 'MISSED'} ({seconds:.0f} s)", flush=True)
    return bool(by_notebook and by_test)


def main() -> int:
    words = sys.argv[1:]
    chosen = [mistake for mistake in MISTAKES if not words or any(word in mistake.name for word in words)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        noticed = sum(pool.map(look_for, chosen))
    print(f"{noticed} of {len(chosen)} mistakes were noticed by both")
    return len(chosen) - noticed


if __name__ == "__main__":
    sys.exit(main())
