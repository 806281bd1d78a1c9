/** A browser for tests of the pages, where one is installed. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const { PATH = '' } = process.env;

/** Undefined where there is none: tests that need it are skipped and counted. */
export const CHROMIUM = PATH.split(delimiter)
  .flatMap((folder) => ['chromium', 'chromium-browser'].map((name) => join(folder, name)))
  .find((path) => existsSync(path));

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

export function launchBrowser(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error('chromium is not installed');
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

export interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  /** What the browser complained about, and what scripts threw. */
  readonly complaints: string[];
}

/** A page with cookies of its own. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ baseURL: url, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    const { url: source } = message.location();
    if (message.type() === 'error') complaints.push(`${message.text()} ${source}`);
  });
  page.on('pageerror', ({ message }) => complaints.push(message));
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { page, complaints, [Symbol.asyncDispose]: () => context.close() };
}
