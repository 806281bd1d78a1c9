/** Ways to take a result along. */
import { el } from './dom.js';

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
