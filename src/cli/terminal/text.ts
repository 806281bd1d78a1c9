/** Text for people: numbers with units, names that are safe to print, and plain tables. */
import path from 'node:path';
import { isObjectAddress } from '../../core/s3-settings.ts';

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${BYTE_UNITS[unit] ?? ''}`;
}

/** `12.3 s`, `4 min 05 s`, `2 h 03 min`. */
export function formatDuration(seconds: number): string {
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (value: number): string => String(value).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

export function formatSpeed(timesRealTime: number): string {
  return `${timesRealTime.toFixed(1)} × real time`;
}

/** A name or message cannot send control characters to the terminal. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (control) => {
    const code = control.codePointAt(0) ?? 0;
    return `\\x${code.toString(16).padStart(2, '0')}`;
  });
}

/** Relative to `folder` where that is inside it; printable. */
export function shownPath(filePath: string, folder: string): string {
  if (isObjectAddress(filePath)) return printable(filePath);
  const relative = path.relative(folder, filePath);
  const outside = relative === '' || relative.split(path.sep)[0] === '..';
  return printable(outside ? filePath : relative);
}

/** Columns are padded to their widest cell, with two spaces between them. */
export function textTable(rows: readonly (readonly string[])[]): string {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  );
  return rows
    .map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}
