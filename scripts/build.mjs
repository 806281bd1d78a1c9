/**
 * Compiles TypeScript to dist/ (only what changed), joins the programs with what they load, copies what browsers load, and
 * marks the command line as executable.
 */
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs';
import process from 'node:process';
import { bundle } from './bundle.mjs';
import { ROOT, run } from './setup.mjs';

run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']);
await bundle();
// The dashboard's pages look for their assets beside their own code, which is in either place.
for (const folder of ['src/http/pages/assets', 'src/chunks/assets']) {
  rmSync(`${ROOT}/dist/${folder}`, { recursive: true, force: true });
  cpSync(`${ROOT}/src/http/pages/assets`, `${ROOT}/dist/${folder}`, { recursive: true });
}
const cli = `${ROOT}/dist/src/cli/main.js`;
if (existsSync(cli)) chmodSync(cli, 0o755);
