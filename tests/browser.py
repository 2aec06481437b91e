"""A real browser for the tests of pages: Debian's chromium, driven by playwright.

Without one, the tests are skipped with the reason, or fail if `REPROOF_REQUIRE=browser` promises it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Error, sync_playwright

from tests import apt

__all__ = ["Browser", "Seen", "browser"]

PHONE, DESKTOP = 375, 1200
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page."""

    values: dict[str, Any]
    """What the expressions that were asked for came to."""
    requests: list[str]
    """Addresses it asked for, but for the page itself."""
    complaints: list[str]
    """Errors and warnings on the console, and dialogs."""


class Browser:
    """Opens pages. playwright's loop runs in a thread of its own, where no test's loop can meet it."""

    def __init__(self, executable: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._playwright = self._thread.submit(lambda: sync_playwright().start()).result()
        try:
            self._chromium = self._thread.submit(self._launch, executable).result()
        except BaseException:
            self.close()
            raise

    def _launch(self, executable: str) -> Chromium:
        return self._playwright.chromium.launch(executable_path=executable, args=list(_OPTIONS))

    def close(self) -> None:
        self._thread.submit(self._playwright.stop).result()
        self._thread.shutdown()

    def see(
        self, path: Path, expressions: Mapping[str, str], *, width: int = DESKTOP, dark: bool = False, at: str = ""
    ) -> Seen:
        """Open a file, at `#at` if given, and evaluate JavaScript expressions in it."""
        return self._thread.submit(self._see, path.as_uri(), dict(expressions), width, dark, at).result()

    def _see(self, address: str, expressions: dict[str, str], width: int, dark: bool, at: str) -> Seen:
        context = self._chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
        )
        try:
            page = context.new_page()
            requests: list[str] = []
            complaints: list[str] = []
            page.on("request", lambda request: requests.append(request.url))
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
            page.goto(address + (f"#{at}" if at else ""))
            values = {name: page.evaluate(expression) for name, expression in expressions.items()}
            return Seen(values, [url for url in requests if url.partition("#")[0] != address], complaints)
        finally:
            context.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        opened = Browser(_find())
    except (apt.NotInstalled, Error) as exc:
        why = "is not installed, and" if isinstance(exc, apt.NotInstalled) else "does not start:"
        promised = "browser" in os.environ.get("REPROOF_REQUIRE", "").split(",")
        (pytest.fail if promised else pytest.skip)(f"no browser: chromium {why} {exc}")
    try:
        yield opened
    finally:
        opened.close()


def _find() -> str:
    found = shutil.which("chromium")
    if found is None:
        apt.install("chromium")
        found = shutil.which("chromium")
    if found is None:
        raise apt.NotInstalled("Debian's package brought none")
    return found
