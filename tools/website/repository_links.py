"""MkDocs hook: links from pages to files of the repository outside docs/.

On GitHub such a link opens the file. The site copies each linked file below `source/` and points the link at the copy, so that
the site works without a network. Linked Markdown files become pages. A link to a folder leads to the folder's README.md. A link
whose target does not exist stays as it is, and the strict build fails for it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

COPIES: Final = "source/"
"""Folder of the site with the copies of files outside docs/."""
DOCS: Final = "docs/"
_LINK: Final = re.compile(r"\]\((?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?\)")
"""A relative link: path, anchor. Links with a scheme, anchors of the same page and absolute paths are left to MkDocs."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every file outside docs/ that a page links to, and those that its copy links to."""
    from mkdocs.structure.files import File, InclusionLevel

    root = Path(config.docs_dir).resolve().parent
    pages = [f"{DOCS}{file.src_uri}" for file in files.documentation_pages()]
    for path in sorted(outside(root, pages)):
        files.append(File.generated(config, COPIES + path, abs_src_path=str(root / path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text with each link to a file outside docs/, or of a copy, pointed at its place in the site."""
    return rewrite(markdown, page.file.src_uri, Path(config.docs_dir).resolve().parent)


def outside(root: Path, pages: list[str]) -> set[str]:
    """Return the files outside docs/ that pages link to, directly or through each other, as paths below the root."""
    found: set[str] = set()
    waiting = list(pages)
    while waiting:
        page = waiting.pop()
        for target in _targets(root, page):
            if not target.startswith(DOCS) and target not in found:
                found.add(target)
                waiting += [target] if target.endswith(".md") else []
    return found


def rewrite(markdown: str, uri: str, root: Path) -> str:
    """Return a page's text with its links as the site needs them; `uri` is the page's place in the site."""
    source = _source(uri)

    def replace(link: re.Match[str]) -> str:
        target = _resolve(root, source, link[1])
        if target is None:
            return link[0]
        return f"]({posixpath.relpath(_place(target), posixpath.dirname(uri) or '.')}{link[2] or ''})"

    return "\n".join(_LINK.sub(replace, line) if is_text else line for line, is_text in _lines(markdown))


def _targets(root: Path, page: str) -> Iterator[str]:
    text = (root / page).read_text(encoding="utf-8")
    links = (link[1] for line, is_text in _lines(text) if is_text for link in _LINK.finditer(line))
    yield from filter(None, (_resolve(root, page, link) for link in links))


def _resolve(root: Path, page: str, link: str) -> str | None:
    """Return the file that a link in a file leads to, as a path below the root; None if the repository has no such file."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if path.startswith(".."):
        return None
    if (root / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path if (root / path).is_file() else None


def _source(uri: str) -> str:
    """Return the path below the root of the file of which a page of the site is made."""
    return uri.removeprefix(COPIES) if uri.startswith(COPIES) else DOCS + uri


def _place(path: str) -> str:
    """Return the place of a file in the site."""
    return path.removeprefix(DOCS) if path.startswith(DOCS) else COPIES + path


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is outside of fenced code."""
    fence = ""
    for line in markdown.split("\n"):
        mark = line.lstrip()[:3]
        is_mark = mark in ("```", "~~~") and fence in ("", mark)
        if is_mark:
            fence = "" if fence else mark
        yield line, not fence and not is_mark
