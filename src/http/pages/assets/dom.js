/** Makes elements. Whatever is put in is text: file names and transcripts come from strangers. */

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  const isShown = (child) => child !== undefined && child !== null && child !== false;
  element.append(...children.flat(3).filter(isShown));
  return element;
}

/** An HTML element: `el('a', { href: '/x', onclick: run }, 'text', anotherElement)`. */
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element;
}

/** What each container was last given; compared, never parsed. */
const contents = new WeakMap();

/** Replaces the children only when they say something new, so that focus and selection stay. */
export function update(container, ...children) {
  const next = el('div', {}, ...children);
  const { innerHTML: content } = next;
  if (content === contents.get(container)) return;
  contents.set(container, content);
  const focused = container.contains(document.activeElement)
    ? document.activeElement?.getAttribute('data-key')
    : undefined;
  container.replaceChildren(...next.childNodes);
  if (focused) container.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

export function badge(text, tone) {
  return el('span', { class: 'badge', 'data-tone': tone }, text);
}

/** Stands where there is nothing to tell. */
export const NONE = '–';

/** Rows that become cards on a narrow screen. `columns` are `{ label, class }`; each row is a list of cells. */
export function table(caption, columns, rows) {
  return el(
    'table',
    { class: 'rows' },
    el('caption', { class: 'visually-hidden' }, caption),
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        columns.map(({ label, class: kind }) => el('th', { scope: 'col', class: kind }, label)),
      ),
    ),
    el(
      'tbody',
      {},
      rows.map((cells) =>
        el(
          'tr',
          {},
          cells.map((cell, at) => {
            const { label, class: kind } = columns[at];
            return at === 0
              ? el('th', { scope: 'row' }, cell)
              : el('td', { class: kind, 'data-label': label, 'data-none': cell === NONE }, cell);
          }),
        ),
      ),
    ),
  );
}

export function empty(title, ...hint) {
  return el('div', { class: 'empty' }, el('strong', {}, title), el('span', {}, hint));
}

/** Terms and their values. */
export function facts(pairs) {
  return el(
    'dl',
    { class: 'facts' },
    pairs
      .filter(([, value]) => value !== undefined)
      .map(([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, value))),
  );
}
