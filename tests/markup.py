"""Whether a page holds only what we wrote: hostile text, and a reader that finds markup in it."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import strategies as st

__all__ = ["HOSTILE", "foreign_markup"]

_FRAGMENTS = (
    "<zq>",
    "</pre></details><zq onzq=1>",
    "\"><zq onzq='1'>",
    "'><zq onzq=1>",
    "<script>zq()</script>",
    "</script><zq>",
    "</style><zq>",
    "</title><zq>",
    "<!-- zq",
    "--><zq>",
    "<![CDATA[<zq>",
    "javascript:zq()",
    "&lt;zq&gt;&#60;zq>",
    "\x00<zq>",
    "\x1b[31m",
    "\u202e<zq>",
    "\ud800<zq>",
    "\n</textarea><zq>\n",
)
HOSTILE = st.one_of(
    st.sampled_from(_FRAGMENTS),
    st.lists(st.one_of(st.sampled_from(_FRAGMENTS), st.text(max_size=5)), max_size=4).map("".join),
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.foreign: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if "zq" in tag:
            self.foreign.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or "zq" in name or name == "style":
                self.foreign.append(f"<{tag} {name}>")
            if name in ("href", "src", "action") and not (value or "").startswith(("#", "data:,")):
                self.foreign.append(f"<{tag} {name}={value!r}>")

    def handle_comment(self, data: str) -> None:
        self.foreign.append(f"<!--{data}-->")

    def unknown_decl(self, data: str) -> None:
        self.foreign.append(f"<![{data}]>")


def foreign_markup(page: str) -> list[str]:
    """Everything in a page that a browser would obey and that is not ours."""
    page.encode("utf-8")  # or it could not be written
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.foreign + (["a second script"] if reader.scripts != 1 else [])
