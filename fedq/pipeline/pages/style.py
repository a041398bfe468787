"""How pages look: one style sheet, light and dark, with the colours that charts use."""

from collections.abc import Sequence
from typing import Final

#: Series have the same hues in both; what is text has enough contrast on its ground.
LIGHT: Final = (
    "#2563c9", "#c2410c", "#15803d", "#9333ea", "#be123c", "#0f766e", "#a16207", "#475569",
)  # fmt: skip
DARK: Final = (
    "#7cb0ff", "#fb923c", "#6bd68b", "#c99bff", "#fb7189", "#4fd1c1", "#e5b94e", "#a8b5c7",
)  # fmt: skip


def _colours(values: Sequence[str]) -> str:
    return " ".join(f"--c{index}: {value};" for index, value in enumerate(values))


_GROUND: Final = f"""
:root {{ --ink: #1c2430; --faint: #5b6675; --paper: #fff; --card: #f5f7fa; --rule: #dde3ea;
  --well: #15803d; --wrong: #b91c1c; {_colours(LIGHT)} }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6eaf0; --faint: #9aa7b8; --paper: #14181f; --card: #1d232d; --rule: #323b48;
    --well: #6bd68b; --wrong: #fb7189; {_colours(DARK)} }} }}
"""
_TEXT: Final = """
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
main { max-width: 920px; margin: 0 auto; padding: 24px 20px 48px }
h1 { font-size: 26px; margin: 0 0 4px }
h2 { font-size: 18px; margin: 0 0 4px }
p { margin: 0 0 10px; color: var(--faint) }
section { margin: 28px 0 0; padding: 16px 18px; background: var(--card); border-radius: 10px }
footer { margin-top: 28px; color: var(--faint); font-size: 13px }
.facts { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0 }
.fact { background: var(--card); border-radius: 10px; padding: 10px 16px; min-width: 110px }
.fact b { display: block; font-size: 22px }
.fact span { color: var(--faint); font-size: 13px }
.fact.well b { color: var(--well) }
.fact.wrong b { color: var(--wrong) }
"""
_CHARTS: Final = """
figure { margin: 6px 0 0 }
svg { width: 100%; height: auto; display: block }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif }
svg text.faint { fill: var(--faint) }
.rule { stroke: var(--rule); stroke-width: 1 }
.line { fill: none; stroke-width: 1.8 }
.area { opacity: .16 }
.none { padding: 20px 0 }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 6px 0 0;
  padding: 0; font-size: 13px }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  margin-right: 6px }
"""
_TABLES: Final = """
details { margin-top: 10px; font-size: 13px }
summary { cursor: pointer; color: var(--faint) }
.scroll { overflow: auto; max-height: 420px }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums }
"""
_SERIES: Final = "".join(
    f".s{each} {{ fill: var(--c{each}) }} .l{each} {{ stroke: var(--c{each}) }} "
    f".b{each} {{ background: var(--c{each}) }}\n"
    for each in range(len(LIGHT))
)
STYLE: Final = _GROUND + _TEXT + _CHARTS + _TABLES + _SERIES
