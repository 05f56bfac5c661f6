"""How the tests search for a password: in each of its forms, and in the arguments of all processes."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import psutil


@dataclass(frozen=True, slots=True)
class Secret:
    """A password in every form in which it could appear."""

    password: str

    @property
    def forms(self) -> dict[str, bytes]:
        plain = self.password.encode()
        escaped = self.password.replace("/", "\\/").replace("&", "\\u0026")
        forms = {
            "plain": plain,
            "URL-quoted": quote(self.password, safe="").encode(),
            "URL-quoted except slashes": quote(self.password).encode(),
            "as in a form": quote_plus(self.password).encode(),
            "in JSON": escaped.encode(),
            "in hexadecimal": plain.hex().encode(),
        }
        for before in range(3):  # inside a longer text, its base64 depends on where it starts
            encoded = base64.b64encode(b"\0" * before + plain)[4 if before else 0 : -4]
            forms[f"in base64 ({before})"] = encoded
            forms[f"in base64 for URLs ({before})"] = encoded.translate(bytes.maketrans(b"+/", b"-_"))
        return forms

    def found_in(self, text: bytes) -> list[str]:
        return [name for name, form in self.forms.items() if form in text]


def new_password() -> str:
    """A password that looks different in each form, and that every part of Kafka accepts."""
    return f"{secrets.token_urlsafe(18)}/+%&~{secrets.token_urlsafe(6)}"


class ProcessWatch(threading.Thread):
    """Reads the arguments of every process on this machine.

    It reads those of young processes again and again, because they may still exec another program.
    """

    YOUNG_S = 2.0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self._end = threading.Event()

    def run(self) -> None:
        young_until: dict[int, float] = {}
        all_at = 0.0
        while not self._end.wait(0.02):
            now = time.monotonic()
            young_until = {pid: young_until.get(pid, now + self.YOUNG_S) for pid in psutil.pids()}
            if every := now >= all_at:
                all_at = now + self.YOUNG_S
            for pid, until in young_until.items():
                if every or now < until:
                    self._read(Path(f"/proc/{pid}/cmdline"))

    def _read(self, arguments: Path) -> None:
        with suppress(OSError):  # it has ended
            self.seen.add(arguments.read_bytes())

    def end(self) -> None:
        self._end.set()
        self.join()

    def check(self, *unseen: Secret) -> None:
        arguments = b"\n".join(self.seen)
        assert b"kafka.Kafka" in arguments
        for secret in unseen:
            assert not secret.found_in(arguments)
