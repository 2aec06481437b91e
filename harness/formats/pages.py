"""The frame of every page: one file that needs nothing else, in one style, with nothing in it that was not escaped.

Whatever a candidate wrote is hostile here, too. A plain `str` becomes text, never markup: only
`element()` makes markup, and a `Content-Security-Policy` of hashes lets nothing run or load but the
style and the script below.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from typing import Literal

from .text import plain

__all__ = ["STYLE", "Markup", "Tone", "cut", "document", "element", "figures", "joined", "mark_of", "tone_of"]

Tone = Literal["good", "bad", "warn", "none"]

_TONES: dict[str, Tone] = {
    "passed": "good",
    "xpassed": "good",
    "failed": "bad",
    "error": "bad",
    "broken": "bad",
    "crashed": "bad",
    "tampered": "bad",
    "timeout": "warn",
    "out_of_memory": "warn",
    "limit": "warn",
}
_MARKS = {"passed": "✓", "xpassed": "✓", "timeout": "◷", "error": "!", "skipped": "–", "xfailed": "–", "not_run": "·"}
_TONE_MARKS: dict[Tone, str] = {"good": "✓", "bad": "✗", "warn": "◷", "none": "?"}


def tone_of(said: str) -> Tone:
    """Of a verdict or of a test's outcome; `none` is neither good nor bad: skipped, not run, invalid."""
    return _TONES.get(said, "none")


def mark_of(said: str) -> str:
    """One character that tells without its colour."""
    return _MARKS.get(said, _TONE_MARKS[tone_of(said)])


class Markup(str):
    """Text that is HTML already. Made by `element` and `joined` alone."""


def element(name: str, /, *children: str | None, **attributes: str | int | float | bool | None) -> Markup:
    """`<name attributes>children</name>`; what is not Markup is escaped.

    A trailing `_` of an attribute is dropped, and `_` within becomes `-`: `class_`, `aria_label`.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in ("meta", "link", "input"):
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{_escaped(f"{value:g}" if isinstance(value, float) else str(value))}"'


def joined(parts: Iterable[str | None], between: str = "") -> Markup:
    safe = (part if isinstance(part, Markup) else _escaped(part) for part in parts if part is not None)
    return Markup(_escaped(between).join(safe))


def _escaped(text: str) -> str:
    return html.escape(plain(text).encode("utf-8", "backslashreplace").decode("utf-8"))


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} characters more]"


def figures(*pairs: tuple[str, str]) -> Markup:
    """The few numbers that matter."""
    boxes = [element("div", element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", *boxes, class_="figures")


def document(title: str, *body: str | None, footer: str = "") -> str:
    """A whole page."""
    policy = (
        f"default-src 'none'; style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    main = element("main", *body)
    foot = element("footer", footer) if footer else None
    whole = element("html", head, element("body", main, foot, element("script", Markup(SCRIPT))), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


# A link to something inside closed details opens them.
SCRIPT = """
function show() {
  let target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", show);
show();
"""

STYLE = """
:root {
  --page: #ffffff; --text: #1b1f24; --quiet: #57606a; --line: #d5dae0; --panel: #f4f6f8; --link: #0a53be;
  --good: #0f6b38; --good-panel: #d8f1e2; --bad: #ab1f17; --bad-panel: #fbe3e1;
  --warn: #7d4b00; --warn-panel: #fcebc8; --none: #4f5862; --none-panel: #e6e9ed;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121518; --text: #e4e8ec; --quiet: #9da7b1; --line: #30363d; --panel: #1a1e23; --link: #80b4ff;
    --good: #74dba0; --good-panel: #15361f; --bad: #ff9d94; --bad-panel: #471d1a;
    --warn: #f2c06b; --warn-panel: #40300f; --none: #a9b2bb; --none-panel: #272c32;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
main, body > footer { max-width: 70rem; margin: 0 auto; padding: 1.25rem 1rem; }
body > footer { color: var(--quiet); font-size: .85rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p { margin: .4rem 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code, pre, .mono { font-family: var(--mono); font-size: .86em; }
pre { margin: 0; padding: .5rem .7rem; background: var(--panel); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 32rem; overflow-y: auto; }
.quiet { color: var(--quiet); }
.good { --tone: var(--good); --tone-panel: var(--good-panel); }
.bad { --tone: var(--bad); --tone-panel: var(--bad-panel); }
.warn { --tone: var(--warn); --tone-panel: var(--warn-panel); }
.none { --tone: var(--none); --tone-panel: var(--none-panel); }
.tag { background: var(--tone-panel); color: var(--tone); border-radius: 5px; padding: .05rem .4rem; font-size: .85rem;
  font-weight: 600; white-space: nowrap; }
.banner { background: var(--tone-panel); border-left: .5rem solid var(--tone); border-radius: 8px;
  padding: 1rem 1.1rem; }
.banner h1 { color: var(--tone); }
.banner p { margin: .35rem 0 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.figures div { border: 1px solid var(--line); border-radius: 8px; padding: .45rem .7rem; }
.figures dt { color: var(--quiet); font-size: .8rem; }
.figures dd { margin: 0; font-size: 1.15rem; font-weight: 600; }
.strip { display: flex; flex-wrap: wrap; gap: 3px; margin: 1rem 0; }
.cell { display: inline-flex; align-items: center; justify-content: center; width: 1.35rem; height: 1.35rem;
  border-radius: 4px; background: var(--tone-panel); color: var(--tone); font-size: .85rem; font-weight: 700;
  text-decoration: none; line-height: 1; }
.many .cell { width: .7rem; height: .7rem; font-size: 0; border-radius: 2px; background: var(--tone); }
details { border: 1px solid var(--line); border-radius: 8px; margin: .6rem 0; }
summary { cursor: pointer; padding: .55rem .8rem; }
details[open] > summary { border-bottom: 1px solid var(--line); }
details > .inside { padding: .4rem .8rem .8rem; }
.failure > summary { border-left: .3rem solid var(--tone); border-radius: 8px; }
.failure > summary b { font-family: var(--mono); font-size: .92em; }
.failure > summary p { margin: .1rem 0 0; }
.facts { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr);
  gap: .35rem .8rem; margin: .5rem 0; }
.facts dt { color: var(--quiet); padding-top: .5rem; font-size: .9rem; }
.facts dd { margin: 0; min-width: 0; }
mark { background: var(--tone-panel); color: var(--tone); border-radius: 3px; font-weight: 700; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 600; font-size: .85rem; }
.number { width: 1%; min-width: 4rem; padding-left: .6rem; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.only { display: inline-flex; gap: .4rem; align-items: center; font-size: .9rem; }
section:has(.only input:checked) .is-good, section:has(.only input:checked) .is-none { display: none; }
svg { display: block; width: 100%; height: auto; max-width: 100%; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg .bar { fill: var(--link); }
svg .axis { stroke: var(--line); }
svg .quantile { stroke: var(--text); stroke-dasharray: 3 3; }
.verdicts { height: 1.8rem; border-radius: 6px; margin-bottom: .6rem; }
.verdicts rect { fill: var(--tone); }
figure { margin: .5rem 0 1rem; min-width: 0; }
.share { width: 8rem; }
.share svg { height: .6rem; margin-top: .5rem; }
.pair { display: grid; align-items: start; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); }
.grid { width: auto; border-collapse: separate; border-spacing: 0; }
.legend { white-space: pre-wrap; font-size: .9rem; }
.grid th, .grid td { border: 0; padding: 2px 4px; vertical-align: middle; }
.grid td { text-align: center; }
.grid th[scope=col] { text-align: center; vertical-align: bottom; }
.grid th[scope=rowgroup] { padding: .6rem 0 .2rem; }
.grid th[scope=row] { position: sticky; left: 0; background: var(--page); font: .86rem/1.3 var(--mono);
  color: var(--text); padding-right: 1rem; max-width: 26rem; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.grid th[scope=col]:first-child { text-align: left; }
.dense .score { display: none; }
.dense th[scope=col], .dense td { padding: 1px; font-size: .75rem; }
.dense .cell { width: 1.1rem; height: 1.1rem; font-size: .75rem; }
.dense svg { width: 1.1rem; }
.grid .score { font-weight: 400; font-size: .75rem; white-space: nowrap; }
.grid svg { width: 1.35rem; margin: 0 auto .2rem; }
article { border-left: .3rem solid var(--tone); padding: .1rem 0 .1rem 1rem; margin: 1.2rem 0; }
article h3 { margin-top: 0; }
.diff { padding: 0; }
.diff span { display: block; padding: 0 .7rem; min-height: 1.3em; }
.diff .added { background: var(--good-panel); color: var(--good); }
.diff .removed { background: var(--bad-panel); color: var(--bad); }
.diff .hunk { color: var(--quiet); }
@media (max-width: 40rem) {
  h1 { font-size: 1.3rem; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: .1rem; }
  .facts dt { padding-top: .3rem; }
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .grid th[scope=row] { max-width: 10.5rem; min-width: 8rem; white-space: normal; }
  article { padding-left: .6rem; }
  .failure > summary b { word-break: break-all; }
  .optional { display: none; }
}
@media print { details > .inside { display: block; } pre { max-height: none; } }
"""
