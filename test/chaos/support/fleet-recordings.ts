/** Short recordings of known words, as many as wanted: no two files have the same bytes, and few have other words. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/redis.ts';
import { ffmpeg, speechClip } from '../../support/speech.ts';
import { wordErrors } from '../../support/word-error-rate.ts';

/** Three seconds each. */
const CLIPS = ['sense-0880.flac', 'sense-0930.flac'].map(speechClip);
/** Of an ID3v1 tag, which ends an MP3 file and is no sound. */
const TAG_BYTES = 128;

export interface FleetRecording {
  readonly name: string;
  readonly content: Buffer;
}

/** `count` MP3 files whose names tell what is said in them. */
export async function makeRecordings(tenant: string, count: number): Promise<FleetRecording[]> {
  await using folder = await temporaryFolder();
  const sounds: Buffer[] = [];
  for (const { path, file } of CLIPS) {
    const target = join(folder.path, `${file}.mp3`);
    await ffmpeg('-i', path, '-ar', '16000', '-b:a', '64k', target);
    sounds.push(await readFile(target));
  }
  return Array.from({ length: count }, (_, at) => {
    const clip = at % CLIPS.length;
    const name = `${tenant}-${String(at).padStart(4, '0')}-${clip}.mp3`;
    const tag = Buffer.alloc(TAG_BYTES);
    tag.write(`TAG${name}`);
    return { name, content: Buffer.concat([sounds[clip] ?? Buffer.alloc(0), tag]) };
  });
}

export class HeardWords {
  /** Of each clip. */
  readonly #texts = new Map<string, string>();

  /**
   * Whether this is what the recording says: at most one word is misheard, and the text is that of every other recording of
   * the same sound, to the letter.
   */
  areRight(name: string, text: string): boolean {
    const [, clip = ''] = /-(\d)\.mp3$/.exec(name) ?? [];
    const reference = CLIPS[Number(clip)]?.reference;
    if (reference === undefined || wordErrors(reference, text).errors > 1) return false;
    const heard = this.#texts.get(clip) ?? text;
    this.#texts.set(clip, heard);
    return heard === text;
  }
}
