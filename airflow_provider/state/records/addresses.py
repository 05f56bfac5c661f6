"""Which addresses become links. Whoever may write to a group's topics can put any address into a record."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_HOST: Final = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d*)?", re.ASCII | re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[/\\]")
_STEPS: Final = frozenset({".", ".."})


def address_within(base_url: str, url: str) -> str:
    """``url`` if it lies under ``base_url``, as browsers, proxies and servers read it; otherwise empty."""
    base, parts = _parts(base_url), _parts(url)
    if base is None or parts is None:
        return ""
    if (parts.scheme, parts.netloc.lower()) != (base.scheme, base.netloc.lower()):
        return ""
    return url if parts.path.startswith(f"{base.path.rstrip('/')}/") and _leads_down(parts.path) else ""


def web_address(url: str) -> str:
    """``url`` if it is one of the web; otherwise empty. It may lead anywhere, so show its host."""
    return url if _parts(url) is not None else ""


def _leads_down(path: str) -> bool:
    """Whether no step of the path leads up. A proxy may decode it before it looks for steps, and a Java server cuts off
    what follows a semicolon in each of them.
    """
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return False
    if not decoded.isprintable() or unquote(decoded) != decoded:
        return False
    return _STEPS.isdisjoint(step.partition(";")[0].strip() for step in _SEPARATORS.split(decoded))


def _parts(url: str) -> SplitResult | None:
    """The parts of an address; None if it is not one of the web, or browsers could read it in another way."""
    if not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and _HOST.fullmatch(parts.netloc) else None
