/** From nothing to transcripts: set-up, then `wavepool run` over the bundled speech. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { ROOT, run, setup } from './setup.mjs';

const SPEECH = path.join(ROOT, 'test/fixtures/speech');
const OUT = path.join(ROOT, 'build/quickstart');

try {
  setup();
  console.log(
    `\n$ npx wavepool run ${path.relative(ROOT, SPEECH)} --out ${path.relative(ROOT, OUT)}\n`,
  );
  run(process.execPath, [
    'dist/src/cli/main.js',
    'run',
    SPEECH,
    '--out',
    OUT,
    '--format',
    'txt,json,srt,vtt',
  ]);
  for (const file of readdirSync(OUT)
    .filter((name) => name.endsWith('.txt'))
    .sort()) {
    console.log(
      `\n${file}\n  ${readFileSync(path.join(OUT, file), 'utf8').trim().replaceAll('\n', '\n  ')}`,
    );
  }
  console.log(
    `\nTranscripts as txt, json, srt and vtt are in ${path.relative(process.cwd(), OUT)}/.`,
  );
  console.log('Now your own: npx wavepool run SOME_FOLDER --out TRANSCRIPTS');
} catch (error) {
  console.error(`\nQuickstart stopped: ${error.message}`);
  process.exitCode = 3;
}
