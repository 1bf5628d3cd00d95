"""`python -m language`: list the uses of words that strings for users do not contain. Exit code 1 if there is one."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

from language import EXEMPT, ROOT, Use, is_exempt, patterns, uses


def main() -> int:
    """Check all tracked files except those of `exempt.txt`."""
    output = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    listed, exempt = output.rstrip("\0").split("\0"), patterns()
    found: list[Use] = []
    for file in listed:
        if not is_exempt(file, exempt) and (text := _read_text(ROOT / file)):
            found += uses(file, text)
    for use in found:
        print(use)
    unused = [line for line in exempt if not any(fnmatch(file, line.removeprefix("!")) for file in listed)]
    for line in unused:
        print(f"{EXEMPT.relative_to(ROOT)}: no file matches {line}: correct or remove the line")
    return 1 if found or unused else 0


def _read_text(path: Path) -> str:
    """Return the content of a file; nothing for a removed file and for a binary one."""
    content = path.read_bytes() if path.is_file() else b""
    return "" if b"\0" in content else content.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
