"""The style sheet of a report: light, dark and print, wide and narrow; the colours are those of Okabe and Ito."""

POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'none'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">"
)
"""The content policy of a page without scripts: only its own styles and embedded images."""


def page(title: str, body: str, source: str, more_css: str = "") -> str:
    """A whole page without scripts; ``source`` names the files in its directory that it was made from."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'{POLICY}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{CSS}{more_css}</style>\n</head>\n<body>\n<main>\n{body}\n"
        f"<footer>Made by Headway from {source} in this directory.</footer>\n</main>\n</body>\n</html>\n"
    )


CSS = """
:root { color-scheme: light; --paper: #ffffff; --ink: #1d2126; --soft: #59616b; --rule: #d5dae0; --band: #f4f6f8;
  --training: #0072b2; --validation: #d55e00; --third: #009e73; --level: #4b535c; --shade: 0 114 178; --strength: .5; }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --paper: #15181c; --ink: #e8ebee; --soft: #a7b0ba; --rule: #3a424b; --band: #1e2329;
    --training: #56b4e9; --validation: #e69f00; --third: #2fc79a; --level: #c3cad1; --shade: 86 180 233;
    --strength: .45; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 47rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 42rem; }
.verdict { font-size: 1.15rem; margin: .9rem 0 .4rem; }
.soft, figcaption, caption, footer { color: var(--soft); font-size: .875rem; }
.warn { border-left: 4px solid var(--validation); padding: .3rem .7rem; background: var(--band); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: .6rem; padding: 0;
  margin: 1.2rem 0 0; list-style: none; }
.figures li { background: var(--band); border-radius: .4rem; padding: .55rem .5rem; }
.figures b { display: block; font-size: 1.3rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: .75rem; }
figure { margin: .6rem 0 0; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
.narrow { display: none; }
.narrow svg { max-width: 26rem; }
svg text { fill: var(--ink); font-size: 12px; }
svg .axis, svg .time { fill: var(--soft); }
svg path, svg polyline { fill: none; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axisline { stroke: var(--soft); stroke-width: 1; }
.training { stroke: var(--training); stroke-width: 1.5; stroke-linejoin: round; }
.validation { stroke: var(--validation); stroke-width: 2.2; stroke-linejoin: round; }
.third { stroke: var(--third); stroke-width: 2; stroke-linejoin: round; }
.mark { fill: var(--paper); stroke-width: 2; }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.level { stroke: var(--level); stroke-width: 1.4; }
.level0 { stroke-dasharray: 8 4; }
.level1 { stroke-dasharray: 2 3; }
.level2 { stroke-dasharray: 10 3 2 3; }
.level3 { stroke-dasharray: 4 2; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .925rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: start; vertical-align: top; }
th { font-weight: 600; overflow-wrap: break-word; }
tbody th { font-weight: 400; }
thead th { border-bottom: 2px solid var(--soft); font-size: .85rem; vertical-align: bottom; }
.n { text-align: right; white-space: nowrap; }
.confusion { width: auto; }
.confusion th { max-width: 9rem; min-width: 3.2rem; overflow-wrap: break-word; }
.confusion thead th { text-align: right; }
.confusion thead th:first-child { text-align: left; }
.confusion td { min-width: 3.6rem; background: rgb(var(--shade) / calc(var(--share) * var(--strength)));
  border: 1px solid var(--paper); }
.confusion .right { outline: 2px solid var(--ink); outline-offset: -3px; font-weight: 600; }
.many td { min-width: 2.2rem; padding: .3rem .35rem; font-size: .85rem; }
.many thead th { min-width: 0; padding: .3rem .35rem; }
.map { min-width: 40rem; }
.map path { fill: rgb(var(--shade)); }
.map .frame { fill: none; stroke: var(--rule); }
.map text { font-size: 10px; }
.map path.hit { fill: var(--third); }
.texts td:first-child { width: 60%; white-space: pre-wrap; overflow-wrap: anywhere; }
.texts td { vertical-align: top; }
.confusion small { display: block; font-size: .75rem; font-weight: 400; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
pre { background: var(--band); border-radius: .4rem; padding: .7rem .8rem; margin: .3rem 0 1rem; font-size: .85rem;
  line-height: 1.45; white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
p code { white-space: nowrap; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--rule); padding-top: .6rem; }
@media screen and (max-width: 34rem) {
  .wide { display: none; } .narrow { display: block; }
  main { padding: 1rem .8rem 2rem; } th, td { padding: .35rem .4rem; }
  h1 { font-size: 1.35rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
}
@media print {
  @page { margin: 16mm; }
  body { print-color-adjust: exact; -webkit-print-color-adjust: exact; font-size: 10pt; }
  main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; } figure, tr, pre, .figures { break-inside: avoid; }
  .scroll { overflow: visible; }
}
"""
