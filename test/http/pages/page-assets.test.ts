import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ERROR_CODES } from '../../../src/core/errors.ts';
import { ASSETS, modulesOf } from '../../../src/http/pages/assets.ts';
import {
  jobPage,
  jobsPage,
  loginPage,
  overviewPage,
  uploadPage,
} from '../../../src/http/pages/dashboard-pages.ts';

const FOLDER = new URL('../../../src/http/pages/assets/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, FOLDER), 'utf8');

test('every failure of an input, a model or a worker comes with a way out', () => {
  const codes = [...read('failure.js').matchAll(/^ {2}([A-Z_]+):/gm)].map(([, code]) => code);
  expect(codes.filter((code) => !ERROR_CODES.some((known) => known === code))).toEqual([]);
  const needed = ERROR_CODES.filter((code) => /^(?:INPUT|MODEL|BUSY|WORKER|FFMPEG)_/.test(code));
  expect(needed.filter((code) => !codes.includes(code))).toEqual([]);
});

test('modules are found with all that they import', () => {
  expect(modulesOf('login.js').toSorted()).toEqual(['dom.js', 'login.js']);
});

describe.each([
  ['overview', overviewPage()],
  ['upload', uploadPage('model')],
  ['jobs', jobsPage()],
  ['job', jobPage()],
  ['login', loginPage()],
])('the %s page', (_, page) => {
  const loaded = [...page.matchAll(/(?:src|href)="\/assets\/[0-9a-f]+\/([^"]+)"/g)];
  const names = loaded.map(([, name = '']) => name);

  test('loads only files that are there', () => {
    expect(names).not.toEqual([]);
    expect(names.filter((name) => !ASSETS.names.includes(name))).toEqual([]);
  });

  test('has every element that its script asks for', () => {
    const scripts = names.filter((name) => name.endsWith('.js')).map(read);
    const asked = scripts.flatMap((text) => [...text.matchAll(/byId\('([\w-]+)'\)/g)]);
    const missing = asked.map(([, id]) => id).filter((id) => !page.includes(`id="${id}"`));
    expect([...new Set(missing)]).toEqual([]);
  });

  test('has no script, style or handler in line', () => {
    expect(page).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/);
  });

  test('names every control', () => {
    const controls = [...page.matchAll(/<(?:input|select)[^>]*>/g)].map(([tag]) => tag);
    const unnamed = controls.filter((tag) => {
      const [, id = ''] = /id="([\w-]+)"/.exec(tag) ?? [];
      return !tag.includes('aria-label=') && !page.includes(`for="${id}"`);
    });
    expect(unnamed).toEqual([]);
  });
});

test('contrast of text is at least 4.5 in both color schemes', () => {
  const [light = '', dark = ''] = read('page.css').match(/:root \{[^}]*\}/g) ?? [];
  const pairs = [
    ['text', 'canvas'],
    ['text', 'surface'],
    ['muted', 'canvas'],
    ['muted', 'surface'],
    ['muted', 'sunken'],
    ['accent', 'surface'],
    ['accent', 'canvas'],
    ['accent', 'accent-soft'],
    ['on-accent', 'accent'],
    ['good', 'good-soft'],
    ['warn', 'warn-soft'],
    ['bad', 'bad-soft'],
    ['bad', 'surface'],
    ['muted', 'bad-soft'],
  ];
  const low = [light, dark].flatMap((scheme) =>
    pairs
      .map(([text = '', ground = '']) => ({
        text,
        ground,
        contrast: contrast(colorOf(scheme, text), colorOf(scheme, ground)),
      }))
      .filter((pair) => pair.contrast < 4.5),
  );
  expect(low).toEqual([]);
});

function colorOf(scheme: string, name: string): number[] {
  const hex = new RegExp(`--${name}: #([0-9a-f]{6});`).exec(scheme)?.[1] ?? '';
  return [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255);
}

/** By WCAG 2. */
function contrast(one: number[], other: number[]): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(color: number[]): number {
  const [red = 0, green = 0, blue = 0] = color.map((part) =>
    part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
