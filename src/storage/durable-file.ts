/** Writes that survive a power cut: the bytes, and the folder that names them. */
import { open } from 'node:fs/promises';

/** Makes what was linked, renamed or removed in a folder last. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates a file, which must not exist, for its owner alone. */
export async function writeNewFile(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600);
  try {
    await handle.writeFile(text, 'utf8');
    await handle.sync();
  } finally {
    await handle.close();
  }
}
