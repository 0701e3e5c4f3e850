"""A recorded group as a sequence diagram: text for a terminal, SVG for a browser.

Pure: exchanges in, text out. Time runs downwards; each member has a line, the coordinator is on the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from study.group_requests import PHASES, Exchange

PHASE_NAMES = {1: "find the coordinator", 2: "join", 3: "sync", 4: "heartbeat"}

_LANE = 6
_TEXT_WIDTH = 64
_COLOURS = {1: "#6b4fa0", 2: "#b3541e", 3: "#1b6e53", 4: "#2a5caa", 0: "#555555"}
_SVG_LANE, _SVG_ROW, _SVG_LEFT, _SVG_MIDDLE = 90, 22, 70, 620


class Arrow(NamedTuple):
    """One line of the diagram. `times`: so many alike followed each other."""

    seconds: float
    client: str
    asks: bool
    phase: int
    text: str
    error: bool
    times: int = 1


def arrows(exchanges: Sequence[Exchange]) -> list[Arrow]:
    """Requests and answers by time; heartbeats that are answered ok become one arrow until something else happens."""
    found = []
    for one in exchanges:
        phase = PHASES.get(one.api, 0)
        if one.api == "Heartbeat" and one.answered_s is not None and not one.error:
            text = f"Heartbeat {one.asked}: {one.answered}"
            found.append(Arrow(one.asked_s, one.client, True, phase, text, error=False))
            continue
        found.append(Arrow(one.asked_s, one.client, True, phase, f"{one.api} {one.asked}", error=False))
        if one.answered_s is not None:
            found.append(Arrow(one.answered_s, one.client, False, phase, one.answered, error=one.error))
    found.sort(key=lambda arrow: arrow.seconds)
    return _folded(found)


def as_text(exchanges: Sequence[Exchange]) -> str:
    """`├──` asks, `◄──` is told; the number of the phase stands in front."""
    clients = list(dict.fromkeys(one.client for one in exchanges))
    head = "".join(f"{name[: _LANE - 1]:<{_LANE}}" for name in clients)
    lines = [f"phase  seconds  {head}{'':{_TEXT_WIDTH}}coordinator"]
    for arrow in arrows(exchanges):
        place = clients.index(arrow.client)
        before = f"{'│':<{_LANE}}" * place
        crossing = f"{'─' * (_LANE - 1)}┼" * (len(clients) - place - 1)
        text = _cut(_label(arrow), _TEXT_WIDTH - 6)
        line = f"─ {text} {'─' * (_TEXT_WIDTH + _LANE - 5 - len(text))}"
        drawn = f"├{crossing}{line}►│" if arrow.asks else f"◄{crossing}{line}─┤"
        phase = str(arrow.phase or " ")
        lines.append(f"  {phase}   {arrow.seconds:8.3f}  {before}{drawn}")
    names = ", ".join(f"{number} {name}" for number, name in PHASE_NAMES.items())
    return "\n".join([*lines, f"phases: {names}; ! is an error"])


def as_svg(exchanges: Sequence[Exchange], title: str) -> str:
    """Self-contained; names are escaped; each arrow has its full text as a tool tip."""
    clients = list(dict.fromkeys(one.client for one in exchanges))
    drawn = arrows(exchanges)
    right = _SVG_LEFT + len(clients) * _SVG_LANE + _SVG_MIDDLE
    height = 100 + _SVG_ROW * len(drawn)
    x_of = {name: _SVG_LEFT + 20 + place * _SVG_LANE for place, name in enumerate(clients)}
    heads = "".join(_head(x, name) for name, x in [*x_of.items(), ("coordinator", right)])
    lives = "".join(
        f'<line x1="{x}" y1="62" x2="{x}" y2="{height - 30}" stroke="#bbb"/>' for x in [*x_of.values(), right]
    )
    legend = "".join(
        f'<text x="{_SVG_LEFT + place * 190}" y="{height - 10}" fill="{_COLOURS[number]}">{number} {name}</text>'
        for place, (number, name) in enumerate(PHASE_NAMES.items())
    )
    rows = "".join(
        _svg_arrow(arrow, x_of[arrow.client], right, 80 + place * _SVG_ROW, x_of[clients[-1]] + 14)
        for place, arrow in enumerate(drawn)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 70} {height}" font-size="12"'
        f' font-family="system-ui, sans-serif" role="img"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/><text x="20" y="24" font-size="15">{escape(title)}</text>'
        f"{heads}{lives}{rows}{legend}</svg>\n"
    )


def _folded(found: Sequence[Arrow]) -> list[Arrow]:
    """Members beat by turns: one arrow a member for as long as nothing else happens."""
    folded: list[Arrow] = []
    place_of: dict[tuple[str, str], int] = {}
    for arrow in found:
        place = place_of.get((arrow.client, arrow.text))
        if place is not None:
            folded[place] = folded[place]._replace(times=folded[place].times + 1)
            continue
        if arrow.text.startswith("Heartbeat ") and arrow.text.endswith(": ok"):
            place_of[arrow.client, arrow.text] = len(folded)
        else:
            place_of.clear()
        folded.append(arrow)
    return folded


def _label(arrow: Arrow) -> str:
    times = f" ({arrow.times}×)" if arrow.times > 1 else ""
    return f"{'! ' if arrow.error else ''}{arrow.text}{times}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _head(x: int, name: str) -> str:
    shown = escape(_cut(name, 12))
    return f'<text x="{x}" y="54" text-anchor="middle" font-weight="600">{shown}</text>'


def _svg_arrow(arrow: Arrow, left: int, right: int, y: int, text_x: int) -> str:
    colour = "#b00020" if arrow.error else _COLOURS[arrow.phase]
    tip, back = (right, -7) if arrow.asks else (left, 7)
    label = _label(arrow)
    dashes = "" if arrow.asks else ' stroke-dasharray="5 3"'
    return (
        f'<g><title>{escape(label)}</title><text x="14" y="{y + 4}" fill="#555">{arrow.seconds:.3f}</text>'
        f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="{colour}"{dashes}/>'
        f'<path d="M{tip} {y}l{back} -4v8z" fill="{colour}"/>'
        f'<text x="{text_x}" y="{y - 4}" fill="{colour}">{escape(_cut(label, 96))}</text></g>'
    )
