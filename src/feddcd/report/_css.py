"""The look of a report on a phone, on a desktop and on paper."""

CSS = """
:root { --ink: #1d2127; --soft: #5a6270; --paper: #ffffff; --card: #f5f6f8; --rule: #d8dce2;
  color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8eaee; --soft: #a4acb8; --paper: #14171b; --card: #1d2127; --rule: #353b44; }
  figure svg { filter: brightness(1.3); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  -webkit-text-size-adjust: 100%; overflow-wrap: anywhere; }
main { max-width: 1080px; margin: 0 auto; padding: 20px 16px 48px; }
.n { white-space: nowrap; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 8px 0 12px; }
.lead { font-size: 1.1rem; max-width: 46em; margin: 0 0 24px; }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: 8px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid #0072b2; outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
.scroll table { width: 100%; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: 8px 10px; }
th, td { padding: 6px 10px; text-align: right; border-top: 1px solid var(--rule); }
td { white-space: nowrap; }
thead th { min-width: 5em; color: var(--soft);
  font-weight: 600; vertical-align: bottom; line-height: 1.25; }
th:first-child { text-align: left; }
.scroll th:first-child { position: sticky; left: 0; background: var(--paper);
  min-width: 6em; max-width: 11em; }
.pairs, .facts { width: 100%; max-width: 34em; margin: 0 0 16px; align-self: start; }
.pairs td, .facts td { white-space: normal; }
.pairs td { text-align: left; }
.pairs th { width: 40%; }
.pairs th, .facts th { font-weight: 400; color: var(--soft); }
.pairs caption, .facts caption { padding-left: 0; }
.pairs th, .facts th { padding-left: 0; }
.figures { display: grid; gap: 24px; margin: 28px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 560px; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; color: var(--ink); }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 6px; }
details { border-top: 1px solid var(--rule); padding: 4px 0; }
summary { cursor: pointer; font-weight: 600; padding: 8px 0; }
dt { font-weight: 600; margin-top: 8px; }
dd { margin: 0; max-width: 46em; }
@media print {
  :root { --ink: #000000; --soft: #333333; --paper: #ffffff; --rule: #999999;
    color-scheme: light; }
  @page { margin: 14mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; }
  .scroll table { font-size: 7.5pt; }
  .scroll th, .scroll td { padding: 3px 4px; }
  .scroll th, .scroll th:first-child { min-width: 0; }
  .scroll th:first-child { position: static; }
  .figures { grid-template-columns: 1fr 1fr; }
  tr, dt, dd { break-inside: avoid; }
  dt, caption, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  .pairs, .facts { font-size: 9pt; }
  .pairs th, .pairs td { padding-top: 2px; padding-bottom: 2px; }
  summary { list-style: none; }
}
"""
