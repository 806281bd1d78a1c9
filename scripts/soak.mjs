// Mixed work with kills and cancels, for long: nothing lost, memory and open files level, nothing left behind.
// Usage: npm run soak [-- --minutes N] [--seed N]
import process from 'node:process';
import { parseArgs } from 'node:util';
import { runWhole } from './chaos.mjs';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  },
});
console.log(`${values.minutes} minutes, seed ${values.seed}`);
process.exitCode =
  runWhole('test/chaos/soak.chaos.ts', {
    WAVEPOOL_SOAK_MINUTES: values.minutes,
    WAVEPOOL_SOAK_SEED: values.seed,
  }) ?? 1;
