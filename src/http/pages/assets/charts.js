/** Small drawings, made of attributes only: the content policy allows no inline styles. */
import { el, svg } from './dom.js';

/** @param most how many values fill the width */
export function sparkline(values, most) {
  const top = Math.max(...values, 1);
  const points = values.map((value, at) => {
    const x = ((most - values.length + at) / (most - 1)) * 200;
    return `${x.toFixed(1)},${(30 - (value / top) * 28).toFixed(1)}`;
  });
  return svg(
    'svg',
    { viewBox: '0 0 200 32', class: 'chart', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('line', { x1: 0, y1: 31, x2: 200, y2: 31, stroke: 'currentColor', class: 'rest' }),
    svg('polyline', {
      points: points.join(' '),
      fill: 'none',
      stroke: 'currentColor',
      'stroke-width': 2,
      'stroke-linejoin': 'round',
      'vector-effect': 'non-scaling-stroke',
    }),
  );
}

/** How many batches had each size. */
export function histogram(sizes) {
  const top = Math.max(...sizes);
  const width = 200 / sizes.length;
  const bars = sizes.map((batchCount, at) => {
    const height = batchCount === 0 ? 1 : Math.max(3, (batchCount / top) * 38);
    return svg(
      'rect',
      {
        x: at * width + width * 0.1,
        y: 40 - height,
        width: width * 0.8,
        height,
        fill: 'currentColor',
        class: batchCount === 0 ? 'rest' : undefined,
      },
      svg('title', {}, `${batchCount} batches of ${at + 1}`),
    );
  });
  const total = sizes.reduce((sum, batchCount) => sum + batchCount, 0);
  const items = sizes.reduce((sum, batchCount, at) => sum + batchCount * (at + 1), 0);
  const mean = (items / total).toFixed(1);
  return el(
    'figure',
    {},
    el(
      'figcaption',
      { class: 'spread small muted' },
      el('span', {}, 'Batch sizes'),
      el('span', {}, `mean ${mean}`),
    ),
    svg(
      'svg',
      {
        viewBox: '0 0 200 40',
        height: 40,
        class: 'chart',
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': `${total} batches, ${mean} segments in the mean`,
      },
      bars,
    ),
    el(
      'div',
      { class: 'chart-labels', 'aria-hidden': 'true' },
      el('span', {}, '1'),
      el('span', {}, String(sizes.length)),
    ),
  );
}
