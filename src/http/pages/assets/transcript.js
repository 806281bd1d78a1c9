/** What somebody said, and ways to take it along. */
import { el } from './dom.js';
import { clock } from './format.js';

/** Below this a word is marked: whoever needs to be sure listens again. */
const UNSURE = 0.5;

/** Colors for so many speakers. */
const VOICES = 4;

const percent = (confidence) => `${Math.round(100 * confidence)} % sure`;

/** The text of a segment; words with times know their place (`data-at`, seconds). */
export function saidIn({ text, words, confidence }) {
  if (words === undefined || words.length === 0)
    return el('span', { title: confidence === undefined ? undefined : percent(confidence) }, text);
  const parts = words.flatMap((word, at) => {
    const sure = word.confidence === undefined ? '' : `, ${percent(word.confidence)}`;
    const properties = {
      'data-at': word.start,
      title: `${clock(word.start)}${sure}`,
      class: word.confidence < UNSURE ? 'unsure' : undefined,
    };
    return [at > 0 ? ' ' : '', el('span', properties, word.text)];
  });
  return el('span', {}, parts);
}

/** Who speaks; undefined where speakers are not told apart. */
export function speakerTag(speaker, speakers) {
  if (speaker === undefined) return undefined;
  const voice = Math.max(0, speakers.indexOf(speaker)) % VOICES;
  return el('b', { class: 'speaker', 'data-voice': voice }, speaker);
}

/** `German` for `de`; the code itself where the browser knows no name. */
export function languageName(code) {
  return new Intl.DisplayNames(['en'], { type: 'language', fallback: 'code' }).of(code);
}

/** By task: format, label, what the file's name ends with. */
const FORMATS = {
  transcribe: [
    ['txt', 'Text', 'txt'],
    ['srt', 'SubRip', 'srt'],
    ['vtt', 'WebVTT', 'vtt'],
    ['json', 'JSON', 'json'],
  ],
  vad: [
    ['json', 'JSON', 'json'],
    ['rttm', 'RTTM', 'rttm'],
    ['audacity', 'Audacity', 'labels.txt'],
  ],
};

export function downloads({ task, links, input }) {
  const stem = input.name.replace(/\.[^.]*$/, '') || 'transcript';
  return el(
    'div',
    { class: 'row' },
    el('span', { class: 'label' }, 'Download'),
    FORMATS[task].map(([format, label, extension]) =>
      el(
        'a',
        {
          class: 'button',
          href: `${links.result}?format=${format}`,
          download: `${stem}.${extension}`,
        },
        label,
      ),
    ),
  );
}
