"""Which addresses become links. Whoever may write to a group's topics can put any address into a record."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_HOST: Final = re.compile(r"([\w.-]+|\[[0-9a-f:.]+\])(:\d*)?", re.ASCII | re.IGNORECASE)
_STEPS: Final = frozenset({".", ".."})


def address_within(base_url: str, url: str) -> str:
    """``url`` if it lies under ``base_url``, as browsers read it; otherwise empty."""
    base, parts = _parts(base_url), _parts(url)
    if base is None or parts is None:
        return ""
    if (parts.scheme, parts.netloc.lower()) != (base.scheme, base.netloc.lower()):
        return ""
    steps = _STEPS.intersection(map(unquote, parts.path.split("/")))
    return url if not steps and parts.path.startswith(f"{base.path.rstrip('/')}/") else ""


def web_address(url: str) -> str:
    """``url`` if it is one of the web; otherwise empty. It may lead anywhere, so show its host."""
    return url if _parts(url) is not None else ""


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
