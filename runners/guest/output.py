"""What came past pytest's capture: counted, and its head and tail kept."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

KEPT = 64 * 1024


class Output:
    def __init__(self, limit: int) -> None:
        self.limit, self.total, self.captured = limit, 0, 0
        self.head, self.tail = b"", b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT // 2 - len(self.head)
        if room > 0:
            self.head, data = self.head + data[:room], data[room:]
        self.tail = (self.tail + data)[-KEPT // 2 :]

    def add_captured(self, count: Any) -> None:
        if isinstance(count, int) and count > 0:
            self.total += count
            self.captured += count

    @property
    def over(self) -> bool:
        return self.total > self.limit

    def text(self) -> str:
        cut = self.total - self.captured - len(self.head) - len(self.tail)
        middle = b"\n[... %d bytes cut ...]\n" % cut if cut > 0 else b""
        return (self.head + middle + self.tail).decode("utf-8", "replace")
