/** A recording with its transcript: a waveform, an audio element, and segments that lead to their place. */
import { el } from './dom.js';
import { clock } from './format.js';
import { saidIn, speakerTag } from './transcript.js';
import { drawWave, readPeaks } from './waveform.js';

/** Decoding holds the whole recording in memory. */
const MOST_DRAWN_BYTES = 64 * 1024 * 1024;

export class Player {
  #audio;
  #canvas;
  #note;
  #list;
  #segments = new Map();
  #peaks;
  #current;

  /** @param parts `{ audio, canvas, note, list }`: elements of the page; without `audio` segments are plain text */
  constructor({ audio, canvas, note, list }) {
    this.#audio = audio;
    this.#canvas = canvas;
    this.#note = note;
    this.#list = list;
    if (audio === undefined) return;
    audio.addEventListener('timeupdate', () => this.#follow());
    audio.addEventListener('error', () => {
      audio.hidden = true;
    });
    canvas.addEventListener('click', ({ offsetX }) => {
      if (audio.duration > 0) audio.currentTime = (offsetX / canvas.clientWidth) * audio.duration;
    });
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  /** Shows a file that lies on this machine. Resolves when its waveform is drawn or cannot be. */
  async open(file) {
    this.#audio.src = URL.createObjectURL(file);
    this.#audio.hidden = false;
    this.#note.hidden = false;
    if (file.size > MOST_DRAWN_BYTES) {
      this.#note.textContent = 'This recording is too long to be drawn.';
      return;
    }
    this.#note.textContent = 'Drawing the waveform…';
    try {
      this.#peaks = await readPeaks(file);
      this.#note.hidden = true;
      this.#draw();
    } catch {
      this.#note.textContent =
        'This browser cannot draw the format. The transcript will come all the same.';
    }
  }

  /** Adds or replaces the segment at its place. */
  put(index, segment) {
    if (segment.text === '') this.#segments.delete(index);
    else this.#segments.set(index, segment);
    this.#render();
  }

  /** Replaces all. */
  show(segments) {
    this.#segments = new Map(segments.entries());
    this.#render();
  }

  clear() {
    this.#segments.clear();
    this.#current = undefined;
    this.#list.replaceChildren();
  }

  #render() {
    const sorted = [...this.#segments].sort(([a], [b]) => a - b);
    const known = new Map([...this.#list.children].map((row) => [row.dataset.index, row]));
    const speakers = [...new Set(sorted.map(([, { speaker }]) => speaker))].sort();
    const rows = sorted.map(([index, segment]) => {
      const row = known.get(String(index));
      return row !== undefined && row.dataset.content === contentOf(segment, speakers)
        ? row
        : this.#row(index, segment, speakers);
    });
    // Rows that stay are not touched: whoever reads or holds the focus there is not disturbed.
    for (const row of known.values()) if (!rows.includes(row)) row.remove();
    for (const [at, row] of rows.entries()) {
      if (this.#list.children[at] !== row)
        this.#list.insertBefore(row, this.#list.children[at] ?? null);
    }
  }

  #row(index, segment, speakers) {
    const { start, end } = segment;
    const place = el('time', {}, clock(start));
    const tag = speakerTag(segment.speaker, speakers);
    const said = el('span', {}, tag, tag && ' ', saidIn(segment));
    const seek = ({ target }) => {
      const word = target.closest('[data-at]');
      this.#seek(word === null ? start : Number(word.dataset.at));
    };
    const content =
      this.#audio === undefined
        ? el('div', { class: 'line' }, place, said)
        : el('button', { type: 'button', onclick: seek }, place, said);
    return el(
      'li',
      {
        'data-index': index,
        'data-content': contentOf(segment, speakers),
        'data-start': start,
        'data-end': end,
      },
      content,
    );
  }

  #seek(seconds) {
    if (this.#audio.hidden) return;
    this.#audio.currentTime = seconds;
    // A browser that cannot play it has said so in its own event.
    this.#audio.play().catch(() => undefined);
  }

  #follow() {
    const { currentTime } = this.#audio;
    this.#draw();
    const row = [...this.#list.children].find(
      ({ dataset }) => currentTime >= Number(dataset.start) && currentTime < Number(dataset.end),
    );
    if (row === this.#current) return;
    this.#current?.firstElementChild?.removeAttribute('aria-current');
    row?.firstElementChild?.setAttribute('aria-current', 'true');
    this.#current = row;
  }

  #draw() {
    if (this.#peaks === undefined) return;
    const { currentTime, duration } = this.#audio;
    drawWave(this.#canvas, this.#peaks, duration > 0 ? currentTime / duration : 0);
  }
}

/** What a row shows; one that shows the same stays. */
function contentOf({ text, speaker, words = [] }, speakers) {
  return JSON.stringify([text, speakers.indexOf(speaker), speaker, words.length]);
}
