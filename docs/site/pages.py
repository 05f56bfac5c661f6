"""What MkDocs does besides what ``mkdocs.yml`` says: it takes in the pages at the top of the checkout, and links and
anchors are those that GitHub understands. So a page reads the same in both places.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
AT_THE_TOP: Final = MappingProxyType(
    {
        "README.md": "index.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "SECURITY.md": "security-policy.md",
    }
)
"""Files at the top of the checkout, and what they are called on the site."""
_SOURCES: Final = {page: source for source, page in AT_THE_TOP.items()}
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    config.watch += [str(ROOT / source) for source in AT_THE_TOP] + [str(ROOT / "airflow_provider")]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in AT_THE_TOP.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    uri = page.file.src_uri
    return _LINK.sub(lambda found: _link(found, uri), markdown)


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def _link(found: re.Match[str], page: str) -> str:
    """The link as the site needs it; only its text, if it leads to what is not on the site."""
    mark, text, target, fragment = found.groups(default="")
    source = _SOURCES.get(page, f"docs/{page}")
    linked = os.path.normpath(PurePosixPath(source).parent / target)
    if linked in AT_THE_TOP:
        there = AT_THE_TOP[linked]
    elif linked.startswith("docs/"):
        there = linked.removeprefix("docs/")
    elif (ROOT / linked).exists():
        return text
    else:
        return found[0]
    return f"{mark}[{text}]({os.path.relpath(there, PurePosixPath(page).parent)}{fragment})"
