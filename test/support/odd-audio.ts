/** Audio files as careless or broken programs write them. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What ffmpeg writes into a pipe, where it cannot go back to fill in the sizes. */
export async function writeStreamedWav(source: string, target: string): Promise<void> {
  const args = ['-nostdin', '-loglevel', 'error', '-i', source, '-f', 'wav', 'pipe:1'];
  const options = { encoding: 'buffer', maxBuffer: 64 * 1024 * 1024 } as const;
  await writeFile(target, (await run('ffmpeg', args, options)).stdout);
}

/** A copy of a WAV file whose header says that it holds `bytes` bytes. */
export async function writeWithSizes(source: string, target: string, bytes: number): Promise<void> {
  const wav = await readFile(source);
  wav.writeUInt32LE(bytes, 4);
  wav.writeUInt32LE(bytes, wav.indexOf('data') + 4);
  await writeFile(target, wav);
}

/** A WAV header and nothing behind it. */
export async function writeHeaderOnly(target: string): Promise<void> {
  const header = Buffer.alloc(44);
  header.write('RIFF', 0);
  header.writeUInt32LE(36, 4);
  header.write('WAVEfmt ', 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(16_000, 24);
  header.writeUInt32LE(32_000, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36);
  await writeFile(target, header);
}

/** A copy of a 16-bit WAV file that is as loud as the format allows. */
export async function writeFullScale(source: string, target: string): Promise<void> {
  const wav = await readFile(source);
  const start = wav.indexOf('data') + 8;
  let peak = 1;
  for (let at = start; at + 1 < wav.length; at += 2)
    peak = Math.max(peak, Math.abs(wav.readInt16LE(at)));
  for (let at = start; at + 1 < wav.length; at += 2)
    wav.writeInt16LE(Math.round((wav.readInt16LE(at) * 32_767) / peak), at);
  await writeFile(target, wav);
}

/** A copy of an MP3 file with a picture that claims to be JPEG and is the beginning of a PNG. */
export async function writeWithBrokenPicture(source: string, target: string): Promise<void> {
  const picture = Buffer.concat([
    Buffer.from('\0image/jpeg\0\u0003\0', 'latin1'),
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    Buffer.alloc(500, 0x55),
  ]);
  const frame = Buffer.alloc(10);
  frame.write('APIC', 0);
  frame.writeUInt32BE(picture.length, 4);
  const size = frame.length + picture.length;
  const tag = Buffer.from([0x49, 0x44, 0x33, 3, 0, 0, 0, 0, size >> 7, size & 0x7f]);
  await writeFile(target, Buffer.concat([tag, frame, picture, await readFile(source)]));
}
