#!/usr/bin/env python3
"""The checksums of what ``make`` installs, in constraints.sha256: ``checksums.py pins [NAME ...]`` prints the lines of
constraints.txt, or those of these packages, as ``pip install --require-hashes`` takes them.

``checksums.py ask ADDRESS`` writes constraints.sha256 anew, by what the package index at this address says: for Linux
on x86-64 and ARM, in CPython 3.10 to 3.13.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.tags import Tag
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).parents[1]
PINS, CHECKSUMS = ROOT / "constraints.txt", ROOT / "constraints.sha256"
INTERPRETER = re.compile(r"py3\d*|cp31[0-3]")
PLATFORM = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)")
INDEX_JSON = "application/vnd.pypi.simple.v1+json"
Files = Mapping[str, str]
"""Checksums by names of files."""


def pins() -> Iterator[Requirement]:
    lines = PINS.read_text().splitlines()
    return (Requirement(line) for line in lines if line and not line.startswith("#"))


def version_in(file: str) -> tuple[str, str]:
    """The name and version of a package's file; two empty texts if it is neither a wheel nor a source archive."""
    try:
        name, version = parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
    except ValueError:
        return "", ""
    return name, str(version)


def with_checksums(wanted: Sequence[Requirement], files: Files) -> Iterator[str]:
    """:raises SystemExit: if a pin has no checksum"""
    sums: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file, checksum in files.items():
        sums[version_in(file)].append(checksum)
    for pin in wanted:
        of_pin = sums.get((canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")))
        if not of_pin:
            raise SystemExit(f"{CHECKSUMS.name} has no checksum of {pin}: CONTRIBUTING.md says how to ask for it")
        yield " ".join((str(pin), *(f"--hash=sha256:{each}" for each in of_pin)))


def read() -> Files:
    return {file: checksum for checksum, file in map(str.split, CHECKSUMS.read_text().splitlines())}


def can_be_used(tag: Tag) -> bool:
    """Whether a wheel with this tag runs where the project is developed: an older stable interface does, too."""
    known = INTERPRETER.fullmatch(tag.interpreter) or tag.abi == "abi3"
    return bool(known and PLATFORM.fullmatch(tag.platform)) and not tag.abi.endswith("t")


def of_index(address: str, pin: Requirement) -> Files:
    request = Request(f"{address.rstrip('/')}/{canonicalize_name(pin.name)}/", headers={"Accept": INDEX_JSON})  # noqa: S310
    with urlopen(request, timeout=60) as answer:  # noqa: S310  the maintainer's own index
        listed = json.load(answer)["files"]
    wanted = canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")
    names = {each["filename"]: each["hashes"]["sha256"] for each in listed if version_in(each["filename"]) == wanted}
    return {
        file: checksum
        for file, checksum in names.items()
        if not file.endswith(".whl") or any(map(can_be_used, parse_wheel_filename(file)[3]))
    }


def written(all_files: Iterable[Files]) -> str:
    lines = (f"{checksum}  {file}\n" for files in all_files for file, checksum in sorted(files.items()))
    return "".join(lines)


def main(command: str, *arguments: str) -> None:
    if command == "ask":
        (address,) = arguments
        with ThreadPoolExecutor(8) as threads:
            CHECKSUMS.write_text(written(threads.map(partial(of_index, address), pins())))
        return
    wanted = [pin for pin in pins() if not arguments or pin.name in arguments]
    print(*with_checksums(wanted, read()), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
