/** The frame of every page but the login: navigation, account and main part. */
import { type Html, html, page } from './html.ts';

const PLACES = [
  ['/dashboard', 'Overview'],
  ['/dashboard/upload', 'Transcribe'],
  ['/dashboard/jobs', 'Jobs'],
  ['/dashboard/queues', 'Queues'],
  ['/docs', 'API'],
] as const;

export interface ShellOptions {
  readonly title: string;
  /** The address in the navigation that the page belongs to. */
  readonly current: (typeof PLACES)[number][0];
  readonly main: Html;
  /** The name of a module of the assets. */
  readonly script?: string;
}

export const BRAND = html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" aria-hidden="true"><path d="M3 10v4M7.5 6v12M12 9v6M16.5 4v16M21 10v4"/></svg>`;

export function shell({ title, current, main, script }: ShellOptions): string {
  const links = PLACES.map(([address, name]) =>
    address === current
      ? html`<a href="${address}" aria-current="page">${name}</a>`
      : html`<a href="${address}">${name}</a>`,
  );
  return page({
    title: `${title} · Wavepool`,
    ...(script === undefined ? {} : { script }),
    body: html`<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><div class="bar-inner">
<a class="brand" href="/dashboard">${BRAND}Wavepool</a>
<nav class="nav" aria-label="Pages">${links}</nav>
<div class="account" id="account"></div>
</div></header>
<main id="main" tabindex="-1">
${main}
<noscript><div class="notice"><strong>This page needs JavaScript</strong><p>The same is there for programs: see <a href="/docs">the API</a>.</p></div></noscript>
</main>`,
  });
}
