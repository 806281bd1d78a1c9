/** The evidence as one page to read: no scripts, nothing loaded from anywhere. */
import type {
  CountEvidence,
  EvidenceEntry,
  EvidenceStatus,
  FrameworkEvidence,
  ModelEvidence,
} from '../../core/evidence/evidence.ts';
import { html, type Markup, raw } from './markup.ts';
import { memoryChart, throughputChart } from './report-charts.ts';

/** The titles of the entries. */
const MODEL_ENTRIES: Readonly<Record<string, string>> = {
  M1: 'One slot agrees with itself',
  M2: 'Every start equals one slot',
  M3: 'Mixed and reversed waves',
  M4: 'Recovery',
  M5: 'Memory comes to rest',
  M6: 'The mode itself',
};

const FRAMEWORK_ENTRIES: Readonly<Record<string, string>> = {
  F1: 'Scheduling',
  F2: 'Loads and configurations',
  F3: 'Failures and lifetimes',
  F4: 'Disconnects and shutdown',
  F5: 'Several models',
  F6: 'Regressions and sanitizers',
};

const HASH_SHOWN = 16;

export interface ReportAdmission {
  readonly count: number;
  readonly reason: string;
}

export function renderReport(
  evidence: ModelEvidence,
  framework: FrameworkEvidence | undefined,
  admission: ReportAdmission,
): string {
  const { identity, counts } = evidence;
  const title = `${identity.model}, ${identity.mode} mode: validation`;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${raw(REPORT_STYLE)}</style>
</head>
<body>
<main>
<header>
<p class="kicker">Wavepool validation report</p>
<h1>${identity.model} <span>${identity.mode} mode</span></h1>
${summary(evidence, framework, admission)}
</header>
<section><h2>Entries by slot count</h2>${matrix(counts)}</section>
<section><h2>Throughput by slot count</h2>
<p class="quiet">Audio seconds per second in the warm waves of all starts. Not part of admission.</p>
${throughputChart(counts)}</section>
<section><h2>Memory</h2>
<p class="quiet">Resident size of the worker in its three starts; dots are what growth is judged by: after a warm wave, with nothing at work.
The band tells the phases of the first start; the recovery holds two models for a moment. <span class="key start1">Start 1</span> <span class="key start2">Start 2</span> <span class="key start3">Start 3</span></p>
${counts.filter(({ starts }) => starts.length > 0).map(memorySection)}</section>
<section><h2>What was seen</h2>${counts.map(countDetails)}</section>
<section><h2>Framework</h2>${frameworkTable(framework)}</section>
<section><h2>What this is about</h2>${identityTable(evidence)}</section>
</main>
</body>
</html>
`;
  return page.text;
}

function summary(
  { verdicts }: ModelEvidence,
  framework: FrameworkEvidence | undefined,
  { count, reason }: ReportAdmission,
): Markup {
  const frameworkVerdict = framework === undefined ? 'PENDING' : verdicts.framework;
  return html`<div class="cards">
<div class="card admitted"><b>${count}</b><span>${count === 1 ? 'slot' : 'slots'} admitted</span></div>
<div class="card"><span class="name">Model</span>${badge(verdicts.model)}</div>
<div class="card"><span class="name">Framework</span>${badge(frameworkVerdict)}</div>
<div class="card"><span class="name">Performance</span><span class="plain">${verdicts.performance}</span></div>
</div>
<p class="reason">${sentence(reason)}</p>`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function badge(status: EvidenceStatus): Markup {
  return html`<span class="badge ${status}">${status.replaceAll('_', ' ')}</span>`;
}

function matrix(counts: readonly CountEvidence[]): Markup {
  const ids = Object.keys(MODEL_ENTRIES);
  return html`<div class="scroll"><table class="matrix">
<thead><tr><th>Slots</th><th>Verdict</th>${ids.map((id) => html`<th><abbr title="${MODEL_ENTRIES[id] ?? ''}">${id}</abbr><small>${MODEL_ENTRIES[id] ?? ''}</small></th>`)}
<th>Starts</th><th>Results</th><th>Mismatches</th></tr></thead>
<tbody>${counts.map((count) => matrixRow(count, ids))}</tbody>
</table></div>`;
}

function matrixRow(
  { slots, verdict, entries, starts }: CountEvidence,
  ids: readonly string[],
): Markup {
  const total = (key: 'requests' | 'mismatches') =>
    starts.reduce((sum, start) => sum + start[key], 0);
  const cells = ids.map((id) => {
    const entry = entries.find((one) => one.id === id);
    return html`<td title="${entry?.reason ?? ''}">${badge(entry?.status ?? 'PENDING')}</td>`;
  });
  return html`<tr><th>${slots}</th><td>${badge(verdict)}</td>${cells}
<td class="figure">${starts.length}</td><td class="figure">${total('requests')}</td><td class="figure">${total('mismatches')}</td></tr>`;
}

function memorySection(count: CountEvidence): Markup {
  return html`<h3>${count.slots} ${count.slots === 1 ? 'slot' : 'slots'}</h3>${memoryChart(count)}`;
}

function countDetails({ slots, verdict, entries, starts }: CountEvidence): Markup {
  const failed = starts.flatMap(({ failure }, at) =>
    failure === undefined ? [] : [html`<li>Start ${at + 1} broke off in ${failure}</li>`],
  );
  return html`<details${verdict === 'PASS' ? raw('') : raw(' open')}>
<summary>${slots} ${slots === 1 ? 'slot' : 'slots'} ${badge(verdict)}</summary>
<ul>${failed}</ul>${entries.map(entryDetails)}</details>`;
}

function entryDetails({ id, status, reason, observed }: EvidenceEntry): Markup {
  return html`<div class="entry"><h4>${id} ${MODEL_ENTRIES[id] ?? FRAMEWORK_ENTRIES[id] ?? ''} ${badge(status)}</h4>
${reason === undefined ? raw('') : html`<p class="why">${reason}</p>`}
<ul>${observed.map((line) => html`<li>${line}</li>`)}</ul></div>`;
}

function frameworkTable(framework: FrameworkEvidence | undefined): Markup {
  if (framework === undefined) {
    return html`<p>Not validated for this build. Run <code>wavepool framework validate</code>.</p>`;
  }
  return html`${framework.entries.map(entryDetails)}
<p class="quiet">Recorded ${framework.startedAt.slice(0, 10)}, for every model of the build, by <code>${framework.reproduce}</code>.</p>`;
}

function identityTable(evidence: ModelEvidence): Markup {
  const { identity, manifest, machine } = evidence;
  const rows: readonly [string, string][] = [
    ['Weights (SHA-256)', identity.checkpointSha256],
    ['Native build', `${identity.build} (ggml ${manifest.ggml}, ${manifest.compiler})`],
    ['Flags', manifest.flags],
    ['Backend', identity.backend],
    ['Family, task', `${identity.family}, ${identity.task}`],
    ['Threads of a slot', String(manifest.threads)],
    ['Batch', String(manifest.batch)],
    [
      'Machine',
      `${machine.cpu}, ${machine.cores} cores, ${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB, ${machine.os}`,
    ],
    ['Procedure', `version ${evidence.procedure}, seed ${manifest.seed}`],
    ['Time', `${evidence.startedAt} to ${evidence.endedAt ?? 'now'}`],
  ];
  return html`<table class="facts">${rows.map(([name, value]) => html`<tr><th>${name}</th><td>${value}</td></tr>`)}
<tr><th>To repeat it</th><td><code>${evidence.reproduce}</code></td></tr></table>
<details><summary>Inputs (${manifest.items.length})</summary><table class="facts inputs">
<tr><th>Item</th><th>Fixture</th><th>Seconds</th><th>SHA-256 of the file</th></tr>
${manifest.items.map(inputRow)}</table></details>`;
}

function inputRow(
  { fixture, sha256, startSample, endSample }: ModelEvidence['manifest']['items'][number],
  at: number,
): Markup {
  const seconds = `${(startSample / 16_000).toFixed(2)}–${(endSample / 16_000).toFixed(2)}`;
  return html`<tr><td>${at}</td><td>${fixture}</td><td>${seconds}</td><td><code>${sha256.slice(0, HASH_SHOWN)}…</code></td></tr>`;
}

/** Follows the reader's light or dark setting. */
const REPORT_STYLE = `
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
