#!/usr/bin/env python3
"""Prints lines of code per module and the files over budget (headers 150, sources 400 lines)."""
import collections
import pathlib

root = pathlib.Path(__file__).resolve().parent.parent
BUDGET = {".h": 150, ".cc": 400, ".cu": 400, ".py": 400}
lines = collections.Counter()
files = collections.Counter()
over = []
for path in sorted(root.rglob("*")):
    rel = path.relative_to(root)
    if path.suffix not in BUDGET or rel.parts[0].startswith(("build", ".")):
        continue
    count = len(path.read_text(errors="replace").splitlines())
    lines[rel.parts[0]] += count
    files[rel.parts[0]] += 1
    if count > BUDGET[path.suffix]:
        over.append((count, rel))
for module, count in lines.most_common():
    print(f"{module:12} {count:7,} lines in {files[module]} files")
print(f"{'total':12} {sum(lines.values()):7,}")
for count, rel in sorted(over, reverse=True):
    print(f"  over budget: {rel} ({count})")
