/** Compiles TypeScript to dist/ (only what changed), copies what browsers load, and marks the command line as executable. */
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs';
import process from 'node:process';
import { ROOT, run } from './setup.mjs';

run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']);
const assets = 'src/http/pages/assets';
rmSync(`${ROOT}/dist/${assets}`, { recursive: true, force: true });
cpSync(`${ROOT}/${assets}`, `${ROOT}/dist/${assets}`, { recursive: true });
const cli = `${ROOT}/dist/src/cli/main.js`;
if (existsSync(cli)) chmodSync(cli, 0o755);
