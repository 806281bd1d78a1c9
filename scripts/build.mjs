/** Compiles TypeScript to dist/ (only what changed) and marks the command line as executable. */
import { chmodSync, existsSync } from 'node:fs';
import process from 'node:process';
import { ROOT, run } from './setup.mjs';

run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']);
const cli = `${ROOT}/dist/src/cli/main.js`;
if (existsSync(cli)) chmodSync(cli, 0o755);
