/** Where Whisper tiny.en is: in the folder of the C++ tests, or installed. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { readConfig } from '../../src/core/config.ts';
import { ModelStore } from '../../src/models/store/model-store.ts';

const ID = 'whisper-tiny.en';

/** Its file; undefined, with a word on stderr, where it is not. */
export async function whisperModel(): Promise<string | undefined> {
  const { WAVEPOOL_TEST_MODELS: folder } = process.env;
  const linked = folder === undefined ? undefined : path.join(folder, `${ID}.gguf`);
  if (linked !== undefined && existsSync(linked)) return linked;
  const store = new ModelStore({ directory: readConfig().modelsDir, environment: process.env });
  const installed = await store.locate(ID).catch(() => undefined);
  if (installed === undefined) process.stderr.write(`\nNOT TESTED: ${ID} is not installed\n`);
  return installed?.path;
}
