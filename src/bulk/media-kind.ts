/** Decides whether a file is an input: audio or video by its extension, else by the first bytes of its content. */
import path from 'node:path';

/**
 * A file with one of these extensions is an input whatever it holds, so that a broken recording is reported and not passed
 * over. `.ts` and `.mts` are left to their content: they are also TypeScript.
 */
const MEDIA_EXTENSIONS = new Set(
  [
    'aac ac3 aif aifc aiff alac amr ape au caf dts eac3 flac gsm m4a m4b m4r mka mp1 mp2 mp3 mpa mpc oga ogg opus',
    'ra snd spx tta voc w64 wav wave weba wma wv',
    '3g2 3gp asf avi divx f4v flv m2ts m2v m4v mkv mov mp4 mpeg mpg mxf ogm ogv rm rmvb vob webm wmv',
  ]
    .join(' ')
    .split(' ')
    .map((extension) => `.${extension}`),
);

const MEDIA_CONTENT = /^(audio|video)\/|^application\/(ogg|mxf|vnd\.ms-asf|vnd\.rn-realmedia)/;
/** Scores, not recordings; and MPEG layer I, whose first two bytes are also those of UTF-16 text. */
const NO_RECORDING = new Set(['mid', 'it', 's3m', 'xm', 'mp1']);

export function hasMediaExtension(fileName: string): boolean {
  return MEDIA_EXTENSIONS.has(path.extname(fileName).toLowerCase());
}

/** Reads only the head of the file; false when it cannot be read. */
export async function hasMediaContent(filePath: string): Promise<boolean> {
  try {
    const { fileTypeFromFile } = await import('file-type');
    const type = await fileTypeFromFile(filePath);
    return type !== undefined && MEDIA_CONTENT.test(type.mime) && !NO_RECORDING.has(type.ext);
  } catch {
    // Unreadable, or a head too short or malformed for the detector: in neither case known to be audio.
    return false;
  }
}
