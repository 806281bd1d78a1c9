/**
 * Bar charts as SVG, without dependencies. Their colors have contrast enough on white and on GitHub's dark background alike, for
 * an image cannot tell on which of the two it is shown.
 */
const WIDTH = 760;
const MARGIN = 16;
const LABEL_WIDTH = 250;
const VALUE_WIDTH = 150;
const BAR_HEIGHT = 18;
const BAR_GAP = 6;
const GROUP_GAP = 16;
const TITLE_HEIGHT = 46;
const GROUP_LABEL_HEIGHT = 22;
const TEXT = '#6e7781';
const OURS = '#2f81f7';
const THEIRS = '#8c959f';

function escaped(text) {
  return text
    .replaceAll('`', '')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

function text(
  x,
  y,
  content,
  { size = 13, weight = 'normal', anchor = 'start', color = TEXT } = {},
) {
  return `<text x="${x}" y="${y}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${color}">${escaped(content)}</text>`;
}

function bar(y, { label, value, shown, ours = false }, most) {
  const left = MARGIN + LABEL_WIDTH;
  const width = Math.max(2, ((WIDTH - left - VALUE_WIDTH) * value) / most);
  const middle = y + BAR_HEIGHT - 5;
  const weight = ours ? 'bold' : 'normal';
  const color = ours ? OURS : TEXT;
  return [
    text(left - 8, middle, label, { anchor: 'end', weight }),
    `<rect x="${left}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2" fill="${ours ? OURS : THEIRS}"/>`,
    text(left + width + 6, middle, shown, { weight, color }),
  ];
}

/**
 * @param chart `title`, `subtitle`, and `groups` of `bars`: `label`, `value`, `shown` (the value as text), `ours`; a group may have
 *   a `label`
 */
export function barChart({ title, subtitle, groups }) {
  const most = Math.max(...groups.flatMap(({ bars }) => bars.map(({ value }) => value)));
  const lines = [
    text(MARGIN, 22, title, { size: 16, weight: 'bold' }),
    text(MARGIN, 40, subtitle, { size: 12 }),
  ];
  let y = TITLE_HEIGHT + GROUP_GAP / 2;
  for (const { label, bars } of groups) {
    if (label !== undefined) {
      lines.push(text(MARGIN, y + 13, label, { weight: 'bold' }));
      y += GROUP_LABEL_HEIGHT;
    }
    for (const each of bars) {
      lines.push(...bar(y, each, most));
      y += BAR_HEIGHT + BAR_GAP;
    }
    y += GROUP_GAP;
  }
  const described = groups
    .flatMap(({ bars }) => bars.map((each) => `${each.label}: ${each.shown}`))
    .join('; ');
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" font-family="-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif">`,
    `<title>${escaped(title)}</title>`,
    `<desc>${escaped(described)}</desc>`,
    ...lines,
    '</svg>',
    '',
  ].join('\n');
}
