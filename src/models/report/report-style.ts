/** Of the report: follows the reader's light or dark setting. */
export const REPORT_STYLE = `
:root{color-scheme:light dark;--ink:#1b2330;--quiet:#5d6878;--paper:#f6f7f9;--card:#fff;--edge:#dde2e9;--accent:#2f6fde;
--pass:#14804a;--pass-bg:#def5e7;--fail:#b3261e;--fail-bg:#fde4e1;--wait:#8a5a00;--wait-bg:#fdf0d2;--none-bg:#e9edf2;
--start1:#2f6fde;--start2:#d9730d;--start3:#7a4fd0}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f1;--quiet:#98a4b5;--paper:#12161d;--card:#1a202a;--edge:#2d3644;--accent:#6ea2ff;
--pass:#67d79b;--pass-bg:#143726;--fail:#ff9a90;--fail-bg:#46201d;--wait:#f0c066;--wait-bg:#3d2f11;--none-bg:#272f3b;
--start1:#6ea2ff;--start2:#f0a35a;--start3:#b394f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:920px;margin:0 auto;padding:32px 20px 64px}
h1{margin:0 0 20px;font-size:30px;letter-spacing:-.02em}h1 span{color:var(--quiet);font-weight:400}
h2{margin:0 0 10px;font-size:19px}h3{margin:18px 0 4px;font-size:14px;color:var(--quiet)}h4{margin:14px 0 4px;font-size:14px}
.kicker{margin:0;color:var(--quiet);font-size:13px}
.quiet{color:var(--quiet);margin:0 0 10px;font-size:13.5px}
section{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:18px 20px;margin-top:18px}
.cards{display:flex;gap:12px;flex-wrap:wrap}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 16px;min-width:140px;display:flex;flex-direction:column;gap:4px;justify-content:center;align-items:flex-start}
.card .name{color:var(--quiet);font-size:12.5px}.card .plain{font-weight:600}
.card.admitted{flex-direction:row;align-items:baseline;gap:8px}.card.admitted b{font-size:34px;line-height:1}
.reason{margin:12px 0 0;color:var(--quiet)}
.badge{display:inline-block;border-radius:999px;padding:1px 9px;font-size:11.5px;font-weight:650;letter-spacing:.02em;background:var(--none-bg);color:var(--quiet);white-space:nowrap}
.badge.PASS{background:var(--pass-bg);color:var(--pass)}.badge.FAIL{background:var(--fail-bg);color:var(--fail)}
.badge.PENDING,.badge.BLOCKED{background:var(--wait-bg);color:var(--wait)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;font-weight:600;vertical-align:top}td,th{padding:6px 10px 6px 0;border-bottom:1px solid var(--edge)}
tr:last-child>td,tr:last-child>th{border-bottom:0}
.matrix th abbr{text-decoration:none}.matrix small{display:block;font-weight:400;color:var(--quiet);font-size:11px;line-height:1.25;max-width:84px}
.figure{text-align:right;font-variant-numeric:tabular-nums;padding-right:16px}
.facts th{width:160px;color:var(--quiet);font-weight:500;vertical-align:top}.facts td{overflow-wrap:anywhere}
.inputs th{width:auto}
code{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--none-bg);border-radius:4px;padding:1px 5px}
details{border-top:1px solid var(--edge);padding:8px 0}details:first-of-type{border-top:0}
summary{cursor:pointer;font-weight:600}
.entry ul,details>ul{margin:4px 0 0;padding-left:18px;color:var(--quiet);font-size:13.5px;overflow-wrap:anywhere}
.why{margin:2px 0;color:var(--fail);overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.grid{stroke:var(--edge);stroke-width:1}.tick{fill:var(--quiet)}.value{fill:var(--ink);font-weight:650;font-size:12px}
.bar{fill:var(--accent)}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.line.start1{stroke:var(--start1)}.line.start2{stroke:var(--start2)}.line.start3{stroke:var(--start3)}
.dot.start1{fill:var(--start1)}.dot.start2{fill:var(--start2)}.dot.start3{fill:var(--start3)}
.key{white-space:nowrap;margin-left:8px}.key::before{content:"";display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px}
.key.start1::before{background:var(--start1)}.key.start2::before{background:var(--start2)}.key.start3::before{background:var(--start3)}
.phase{fill:var(--none-bg);stroke:var(--card);stroke-width:1}.phase.warm{fill:var(--pass-bg)}.phase.cold,.phase.reload{fill:var(--wait-bg)}
.phase-name{fill:var(--quiet);font-size:9.5px}
@media print{body{background:#fff}section,.card{break-inside:avoid}}
`;
