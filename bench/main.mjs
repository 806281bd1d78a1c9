/**
 * `npm run bench`: sets up Wavepool and its peers, measures, and writes results, tables and charts; `--help` tells how. Only
 * the file that measures loads the build, which may not be there before.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '..');
const QUICK_MINUTES = 5;

const HELP = `npm run bench -- [PART…] [options]

Measures Wavepool and its peers on this machine, in turn. Without a PART, all of them run. Results are written to
bench/results/PART.json, and from those docs/performance.md and docs/charts; \`node bench/report.mjs\` writes these again.

  --minutes N          time for all parts together; sizes are chosen to fit (default 66)
  --quick              a look in ${QUICK_MINUTES} minutes; results go to bench/results/quick and are printed, not published
  --plan               say what would be measured and how long it would take, and end (sets up first)
  --rounds N           exactly so many rounds; otherwise until the ratios settle (2 to 7)
  --audio-seconds N    audio of parts that measure one long file, speech detection or decoding
  --files N            clips, files or jobs of the other parts
  --peer NAME          only these peers (sherpa-onnx, whisper-cli, faster-whisper); may be given again
  --ours "OPTIONS"     options of \`wavepool run\` instead of the part's own
  --results DIR        write results there, and publish nothing
  --skip-setup         everything is installed and built already
  --help

Examples:
  npm run bench -- --quick
  npm run bench -- --minutes 20
  npm run bench -- whisper-hour --audio-seconds 3600 --peer faster-whisper --rounds 3
  npm run bench -- moonshine-clips --files 1000 --ours "--slots auto --batch auto"
`;

const OPTIONS = {
  minutes: { type: 'string', default: '66' },
  quick: { type: 'boolean', default: false },
  plan: { type: 'boolean', default: false },
  rounds: { type: 'string' },
  'audio-seconds': { type: 'string' },
  files: { type: 'string' },
  peer: { type: 'string', multiple: true },
  ours: { type: 'string' },
  results: { type: 'string' },
  'skip-setup': { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
};

function run(program, args = []) {
  const { status } = spawnSync(process.execPath, [path.join(ROOT, program), ...args], {
    cwd: ROOT,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`${program} failed`);
}

function count(text, name) {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (value > 0) return value;
  throw new Error(`--${name} takes a number above 0`);
}

function optionsOf(values, results, argv) {
  return {
    minutes: values.quick ? QUICK_MINUTES : count(values.minutes, 'minutes'),
    rounds: count(values.rounds, 'rounds'),
    peers: values.peer,
    planOnly: values.plan,
    results,
    command: ['npm run bench', ...(argv.length > 0 ? ['--'] : []), ...argv.map(quoted)].join(' '),
    sizes: {
      audioSeconds: count(values['audio-seconds'], 'audio-seconds'),
      files: count(values.files, 'files'),
      oursArgs: values.ours?.split(' ').filter(Boolean),
    },
  };
}

function quoted(argument) {
  return argument.includes(' ') ? `"${argument}"` : argument;
}

async function main(argv) {
  const { values, positionals } = parseArgs({
    args: argv,
    options: OPTIONS,
    allowPositionals: true,
  });
  if (values.help) return void process.stdout.write(HELP);
  if (process.platform !== 'linux')
    throw new Error('CPU time and memory are read from /proc: Linux');
  if (!values['skip-setup']) {
    run('scripts/setup.mjs');
    // One part's model hangs on purpose: it is in the addon of the tests.
    run('scripts/build-native.mjs', ['--tests']);
  }
  const { PARTS } = await import('./parts.mjs');
  const unknown = positionals.filter((name) => PARTS.every((part) => part.name !== name));
  if (unknown.length > 0) {
    const known = PARTS.map(({ name }) => name).join(', ');
    throw new Error(`no such part: ${unknown.join(', ')}; there are ${known}`);
  }
  const { measureParts } = await import('./measure-parts.mjs');
  const { publish, printParts } = await import('./report.mjs');
  const { RESULTS } = await import('./results.mjs');
  const given = values.results === undefined ? undefined : path.resolve(values.results);
  const results = given ?? (values.quick ? path.join(RESULTS, 'quick') : RESULTS);
  const { measured, failed } = await measureParts(positionals, optionsOf(values, results, argv));
  printParts(results, measured);
  if (results === RESULTS && measured.length > 0) publish();
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`);
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
