/** The HTTP interface: how many jobs it takes one by one, what a large batch costs, and how soon its pages are there. */
import { existsSync } from 'node:fs';
import { programResult } from '../program-result.mjs';
import { number, table } from '../tables.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const MOST_ITEMS = 50_000;
const MOST_FINISHED = 20_000;
const WAYS = { SDK: 'SDK', NDJSON: 'JSON lines over HTTP', JSON: 'JSON over HTTP' };

const whole = (value) => Math.round(value).toLocaleString('en-US');

function documentBatches(ways) {
  const process = ({ peakMb, stallMs }) => `${peakMb} MB, ${stallMs} ms`;
  const head = [
    'Way',
    'Time',
    'Producer: memory, longest stall',
    'Server: memory, longest stall',
    'Redis grows by',
  ];
  const rows = ways.map(({ way, seconds, producer, server, redisMb }) => [
    WAYS[way],
    `${number(seconds)} s`,
    process(producer),
    process(server),
    `${whole(redisMb)} MB`,
  ]);
  const [{ items, counts, cancelling }] = ways;
  return [
    `A batch of ${whole(items)} items:`,
    '',
    ...table(head, rows),
    '',
    `Counting is one call. It takes ${counts.waitingMs} ms, and ${cancelling.countMs} ms with ${whole(cancelling.items)} cancelled ` +
      `items, because their reasons are read. Cancelling them takes ${number(cancelling.ms / 1000)} s.`,
  ];
}

function documentPages({ jobs, pages }) {
  const rows = pages.map(({ page, ms, kB }) => [page, `${whole(ms)} ms`, `${kB} kB`]);
  return [
    `Pages with ${whole(jobs)} finished jobs, in a browser without a cache:`,
    '',
    ...table(['Page', 'Useful after', 'Size'], rows),
  ];
}

export const service = {
  name: 'service',
  title: 'The HTTP interface',
  share: 1.2,
  settings: (seconds) => {
    const share = Math.min(1, seconds / 100);
    return {
      seconds: Math.max(2, Math.round(10 * share)),
      items: Math.max(2_000, Math.round(MOST_ITEMS * share)),
      finishedJobs: Math.max(1_000, Math.round(MOST_FINISHED * share)),
    };
  },
  estimate: ({ seconds, items, finishedJobs }) =>
    12 + seconds + items / 1_000 + (existsSync(CHROMIUM) ? 10 + finishedJobs / 1_500 : 0),
  async measure({ seconds, items, finishedJobs }) {
    const submitting = await programResult('http-submit.mjs', ['--seconds', String(seconds)]);
    const batches = await programResult('batch-submit.mjs', [String(items)]);
    // Pages need a browser.
    const pages = existsSync(CHROMIUM)
      ? await programResult('dashboard.mjs', ['--rounds', '3', '--jobs', String(finishedJobs)])
      : undefined;
    return { submitting, batches, pages };
  },
  document({ data: { submitting, batches, pages } }) {
    const { connections, perSecond, p50, p99, refused } = submitting;
    return {
      lines: [
        `\`POST /v1/jobs\` over ${connections} connections: ${whole(perSecond)} jobs accepted per second, p50 ${p50} ms, p99 ${p99} ms, ` +
          `${refused} refused.`,
        '',
        ...documentBatches(batches),
        ...(pages === undefined ? [] : ['', ...documentPages(pages)]),
      ],
      charts: {},
    };
  },
};
