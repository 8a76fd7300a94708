"""The look of a report on a phone, on a desktop and on paper; and the script that draws."""

CSS = """
:root { --ink: #1d2127; --soft: #505865; --card: #f5f6f8; --rule: #d8dce2; --good: #1b6e46;
  --bad: #a32116; color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #ffffff; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; overflow-wrap: anywhere; }
main { max-width: 1080px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 1.65rem; line-height: 1.2; margin: 8px 0 14px; text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 36px 0 8px; }
p, ul { max-width: 44em; margin: 0 0 12px; }
ul { padding-left: 1.2em; }
li { margin-bottom: 4px; }
.lead { font-size: 1.1rem; }
.proof { border-left: 4px solid var(--good); background: var(--card); padding: 10px 14px;
  border-radius: 0 6px 6px 0; font-size: 1.1rem; }
.proof.open { border-color: var(--bad); background: #fdf1ef; }
.proof strong { color: var(--good); }
.proof.open strong { color: var(--bad); }
.note, figcaption { color: var(--soft); font-size: 0.9rem; }
.n { white-space: nowrap; }
.scroll { overflow: auto; max-height: 36rem; border: 1px solid var(--rule); border-radius: 8px;
  margin-bottom: 12px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid #0072b2; outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
.scroll table { width: 100%; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: 8px 10px; }
.scroll caption span { position: sticky; left: 10px; display: inline-block;
  max-width: calc(100vw - 56px); }
th, td { padding: 5px 10px; text-align: right; border-top: 1px solid var(--rule); }
td { white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; line-height: 1.25;
  background: #ffffff; position: sticky; top: 0; z-index: 1; }
th:first-child { text-align: left; }
.scroll th:first-child { position: sticky; left: 0; background: #ffffff; font-weight: 500;
  min-width: 8.5em; max-width: 15em; overflow-wrap: anywhere; }
.scroll thead th:first-child { z-index: 2; }
.facts { display: grid; gap: 0 40px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); }
.facts table { width: 100%; align-self: start; margin-bottom: 8px; }
.facts th { font-weight: 400; color: var(--soft); padding-left: 0; white-space: nowrap; }
.facts caption { padding-left: 0; }
.facts td { white-space: normal; padding-right: 0; }
.figures { display: grid; gap: 20px 28px; margin: 12px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
.figures figure { max-width: 560px; }
figcaption { max-width: 49em; margin: 6px 0 14px; }
details { border-top: 1px solid var(--rule); padding: 4px 0; }
summary { cursor: pointer; font-weight: 600; padding: 8px 0; }
dt { font-weight: 600; margin-top: 8px; }
dd { margin: 0; max-width: 44em; }
@media (max-width: 480px) {
  body { font-size: 15px; }
  th, td { padding: 5px 8px; }
  .scroll th:first-child { max-width: 9.5em; }
}
@media print {
  :root { --ink: #000000; --soft: #333333; --rule: #999999; }
  @page { margin: 14mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h2 { margin-top: 20px; break-after: avoid; }
  .scroll { overflow: visible; max-height: none; border: 0; }
  .scroll table { font-size: 8pt; }
  .scroll th, .scroll td { padding: 2px 5px; }
  thead th, .scroll caption span, .scroll th:first-child { position: static; }
  .scroll th:first-child { min-width: 13em; }
  caption { padding-left: 0; }
  .figures { grid-template-columns: 330px 330px; }
  .facts { grid-template-columns: 1fr 1fr; font-size: 9pt; }
  tr, dt, dd, li, .proof { break-inside: avoid; }
  section > p, dt, caption, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  summary { list-style: none; }
}
"""

# On paper a figure has the width of the paper, not that of the window.
SCRIPT = """
const places = JSON.parse(document.getElementById("figures").textContent);
const options = {responsive: true, displayModeBar: false, scrollZoom: false};
for (const f of places) Plotly.newPlot(f.id, f.data, f.layout, options);
const sized = width => places.forEach(f => Plotly.relayout(f.id, width(f)));
addEventListener("beforeprint", () => sized(f => ({autosize: false, width: f.wide ? 680 : 330})));
addEventListener("afterprint", () => sized(() => ({autosize: true, width: null})));
"""
