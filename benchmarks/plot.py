"""A bar chart as SVG, by hand: four rectangles do not need a plotting library."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

BAR, LABEL, WIDTH = 22, 330, 900


def bars(title: str, values: Mapping[str, tuple[float, float, float]]) -> str:
    """One bar for each name: the middle value, with a line from the low to the high one."""
    scale = (WIDTH - LABEL - 80) / max(high for _, _, high in values.values())
    height = 50 + BAR * len(values)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-size="15">{escape(title)}</text>',
    ]
    for index, (name, (low, middle, high)) in enumerate(values.items()):
        top = 40 + index * BAR
        colour = "#2b6cb0" if name.startswith("verify") else "#a0aec0"
        parts += [
            f'<text x="{LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top + 2}" width="{middle * scale:.1f}" height="{BAR - 8}" fill="{colour}"/>',
            f'<line x1="{LABEL + low * scale:.1f}" x2="{LABEL + high * scale:.1f}" y1="{top + 9}" y2="{top + 9}" '
            'stroke="#1a202c"/>',
            f'<text x="{LABEL + high * scale + 6:.1f}" y="{top + 13}">{middle:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
