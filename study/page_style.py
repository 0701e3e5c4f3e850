"""How the report looks, on a screen and on paper, and the few lines of script it has besides its charts."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #555; --line: #d5dbe1; --band: #14324a; --accent: #1b6ca8 }
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; margin: 0; color: var(--ink); background: #fff;
  overflow-wrap: break-word; print-color-adjust: exact; -webkit-print-color-adjust: exact }
header, nav, main, footer { padding: 0 max(1rem, calc(50vw - 36rem)) }
header { background: var(--band); color: #fff; padding-top: 1.6rem; padding-bottom: 1.4rem }
header .note { color: #c9d8e4; margin: .2rem 0 1rem } header .lead { font-size: 1.3rem; margin: 0; max-width: 54rem }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 }
h2 { margin: 2.8rem 0 .8rem; padding-bottom: .2rem; border-bottom: 2px solid var(--line) }
h3 { margin: 1.5rem 0 0; font-size: 1.05rem } p, li { max-width: 54rem } li { margin: .4rem 0 }
nav { font-size: .9rem; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding-top: .6rem; padding-bottom: .6rem;
  background: #eef3f7; border-bottom: 1px solid var(--line) }
a { color: #14558a } nav a { text-decoration: none } nav a:hover { text-decoration: underline }
.note, small { color: var(--soft) } small { display: block; font-weight: normal; line-height: 1.3 }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .7rem; text-align: right;
  font-variant-numeric: tabular-nums }
thead th:first-child { text-align: left }
thead th { vertical-align: bottom; background: #eef3f7; border-bottom: 2px solid #b9c6d2 }
td:not(.text) { white-space: nowrap }
th[scope=row], td.text, thead th.text { text-align: left }
th[scope=row] { min-width: 12rem } tbody tr:hover { background: #f6f9fb }
.good { color: #1d6b3a } .warn { background: #fdf3d8 } .bad { background: #fbe3df; font-weight: bold }
.swatch { display: inline-block; width: .8em; height: .8em; margin-right: .5em; border-radius: 2px;
  background: var(--of) }
.new .swatch { background: repeating-linear-gradient(135deg, var(--of) 0 2px, #ffffff 2px 3.5px) }
.length { display: inline-block; width: 5.5rem; height: .7em; margin-right: .6em; text-align: left;
  background: #e6ebf0 }
.length i { display: block; height: 100%; background: var(--accent) }
.beside { display: inline-block; min-width: 4.2em }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem }
.card { border: 1px solid var(--line); border-top: 4px solid var(--of); border-radius: 4px; padding: .8rem 1rem }
.card h3 { margin: 0 } .card p { margin: .4rem 0 0; font-size: .95rem }
.wide { overflow-x: auto } details { margin: .5rem 0 } summary { cursor: pointer; color: #14558a; width: fit-content }
:focus-visible { outline: 3px solid #c8553d; outline-offset: 2px } header :focus-visible { outline-color: #fff }
.skip { position: absolute; left: -999px } .skip:focus { position: static; display: block; padding: .5rem 1rem }
figure { margin: 1rem 0 } figcaption { color: var(--soft); font-size: .9rem } .chart > div { min-width: 30rem }
footer { color: var(--soft); font-size: .9rem; border-top: 1px solid var(--line); margin-top: 3rem;
  padding-bottom: 2rem }
@page { margin: 12mm }
@media print {
  nav, .skip { display: none } body { font-size: 10.5pt } header, main, footer { padding-left: 0; padding-right: 0 }
  header { background: none; color: var(--ink); border-bottom: 2px solid var(--ink) }
  header .note { color: var(--soft) }
  figure, tr, .card { break-inside: avoid } h2, h3, caption { break-after: avoid } thead { display: table-header-group }
  .wide { overflow: visible } .chart > div { min-width: 0 } .cards { grid-template-columns: 1fr 1fr }
  table { font-size: 8pt } th, td { padding: .2rem .3rem } th[scope=row] { min-width: 6.5rem } .length { display: none }
  thead th { overflow-wrap: anywhere }
}
"""

SCRIPT = """
const charts = () => document.querySelectorAll('.js-plotly-plot');
document.getElementById('js-plotly-tester')?.setAttribute('aria-hidden', 'true');
let closed = [];
addEventListener('beforeprint', () => {
  closed = [...document.querySelectorAll('details:not([open])')];
  closed.forEach(one => one.open = true);
  charts().forEach(one => Plotly.relayout(one, {autosize: false, width: 640}));
});
addEventListener('afterprint', () => {
  closed.forEach(one => one.open = false);
  charts().forEach(one => Plotly.relayout(one, {autosize: true, width: null}));
});
"""
"""Paper shows what is folded up on the screen too."""
