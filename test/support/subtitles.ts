/** Strict readers of subtitle files: what a player may refuse is an error here. */
export interface Cue {
  readonly startMs: number;
  readonly endMs: number;
  readonly lines: readonly string[];
}

const SRT_TIMES = /^(\d{2,}:\d\d:\d\d,\d{3}) --> (\d{2,}:\d\d:\d\d,\d{3})$/;
const VTT_TIMES = /^((?:\d{2,}:)?\d\d:\d\d\.\d{3}) --> ((?:\d{2,}:)?\d\d:\d\d\.\d{3})$/;

/** @throws {Error} where the text is not SubRip */
export function parseSrt(text: string): Cue[] {
  return blocksOf(text).map((lines, at) => {
    if (lines[0] !== String(at + 1)) throw new Error(`cue ${at + 1} has the number ${lines[0]}`);
    return cueOf(lines.slice(1), SRT_TIMES);
  });
}

/** @throws {Error} where the text is not WebVTT */
export function parseVtt(text: string): Cue[] {
  const [header, ...blocks] = blocksOf(text);
  if (header?.length !== 1 || header[0] !== 'WEBVTT') throw new Error('the header is not WEBVTT');
  return blocks.map((lines) => cueOf(lines, VTT_TIMES));
}

function blocksOf(text: string): string[][] {
  if (text === '') return [];
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  return text
    .trimEnd()
    .split('\n\n')
    .map((block) => block.split('\n'));
}

function cueOf([times = '', ...lines]: readonly string[], form: RegExp): Cue {
  const [, start, end] = form.exec(times) ?? [];
  if (start === undefined || end === undefined) throw new Error(`these are no times: ${times}`);
  if (lines.length === 0 || lines.some((line) => line.trim() === ''))
    throw new Error(`the cue at ${start} is empty`);
  return { startMs: millisecondsOf(start), endMs: millisecondsOf(end), lines };
}

function millisecondsOf(time: string): number {
  const [seconds = 0, minutes = 0, hours = 0] = time
    .replace(',', '.')
    .split(':')
    .map(Number)
    .reverse();
  return Math.round(1_000 * (3_600 * hours + 60 * minutes + seconds));
}
