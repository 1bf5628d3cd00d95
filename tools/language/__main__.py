"""`python -m language`: list the uses of words that strings for users do not contain. Exit code 1 if there is one."""

from __future__ import annotations

import subprocess
import sys

from language import CLEAN, ROOT, Use, chosen, patterns, uses


def main() -> int:
    """Check the files of `clean.txt`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
    idle = [pattern for pattern in patterns() if not chosen(listed, [pattern])]
    found: list[Use] = []
    for file in chosen(listed, patterns()):
        found += uses(file, (ROOT / file).read_text(encoding="utf-8")) if (ROOT / file).is_file() else []
    for use in found:
        print(use)
    for pattern in idle:
        print(f"{CLEAN.relative_to(ROOT)}: no file matches {pattern}: correct or remove the line")
    return 1 if found or idle else 0


if __name__ == "__main__":
    sys.exit(main())
