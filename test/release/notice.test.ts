/** Who has a copyright in what is compiled into the addon is named in NOTICE. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const WHISPER = path.join(ROOT, 'node_modules/nodejs-whisper/cpp/whisper.cpp');
const NOTICE = readFileSync(path.join(ROOT, 'NOTICE'), 'utf8');
const COMMANDS = path.join(ROOT, 'build/release/compile_commands.json');
const JSON_HEADER = '/usr/include/nlohmann/json.hpp';

/** What the build compiles that is not ours; of one that has not been configured, the folders that it takes it from. */
function compiledSources(): string[] {
  if (existsSync(COMMANDS)) {
    const commands: { file: string }[] = JSON.parse(readFileSync(COMMANDS, 'utf8'));
    return commands
      .map(({ file }) => file)
      .filter((file) => !file.startsWith(`${ROOT}/native/`) && !file.startsWith(`${ROOT}/build/`));
  }
  return ['ggml/src', 'ggml/src/ggml-cpu', 'ggml/src/ggml-cpu/llamafile', 'src']
    .flatMap((folder) => filesOf(path.join(WHISPER, folder)))
    .filter((file) => /\.(c|cpp)$/.test(file));
}

function filesOf(folder: string): string[] {
  return readdirSync(folder).map((name) => path.join(folder, name));
}

/** The headers of its folder come along with a source. */
function withHeaders(files: readonly string[]): string[] {
  const folders = [...new Set(files.map((file) => path.dirname(file)))];
  return [...files, ...folders.flatMap(filesOf).filter((file) => file.endsWith('.h'))];
}

/** Named in a file, without years and what follows the name. */
function holdersIn(file: string): string[] {
  return [
    ...readFileSync(file, 'utf8').matchAll(/Copyright (?:\(c\) |©\s*)?[\d, -]*\d{4} ([^\n]+)/gi),
  ]
    .map(
      ([, holder = '']) => /^[\p{L}.]+(?: (?:\p{Lu}[\p{L}.]*|and))*/u.exec(holder)?.[0] ?? holder,
    )
    .filter((holder) => holder !== '');
}

/** KleidiAI is an option of ggml's that the build leaves off. */
const NOT_COMPILED = /Arm Limited/;

test('every source that is compiled comes from a package in NOTICE', () => {
  for (const file of compiledSources()) expect(file).toContain('/nodejs-whisper/');
  for (const name of ['nodejs-whisper 0.3.1', 'node-addon-api', 'node-api-headers', 'miniaudio'])
    expect(NOTICE).toContain(name);
});

test('everybody who is named in what is compiled is named in NOTICE', () => {
  const single = [path.join(WHISPER, 'examples/miniaudio.h'), JSON_HEADER].filter(existsSync);
  const holders = new Set([...withHeaders(compiledSources()), ...single].flatMap(holdersIn));
  expect(holders.size).toBeGreaterThan(2);
  for (const holder of holders) if (!NOT_COMPILED.test(holder)) expect(NOTICE).toContain(holder);
});
