/** Ways to take a transcript along. */
import { el } from './dom.js';

const FORMATS = [
  ['txt', 'Text'],
  ['srt', 'SubRip'],
  ['vtt', 'WebVTT'],
  ['json', 'JSON'],
];

export function downloads({ links, input }) {
  const stem = input.name.replace(/\.[^.]*$/, '') || 'transcript';
  return el(
    'div',
    { class: 'row' },
    el('span', { class: 'label' }, 'Download'),
    FORMATS.map(([format, label]) =>
      el(
        'a',
        {
          class: 'button',
          href: `${links.result}?format=${format}`,
          download: `${stem}.${format}`,
        },
        label,
      ),
    ),
  );
}
