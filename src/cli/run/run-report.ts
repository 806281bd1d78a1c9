/** What a run says at its end, and a watch from time to time. */
import type { InputFailure, RunEvent, RunSummary } from '../../bulk/summary.ts';
import { EXIT, type ExitCode } from '../terminal/context.ts';
import { formatDuration, formatSpeed, printable, shownPath, textTable } from '../terminal/text.ts';

/** More failures than these are counted; the manifest and `--json` name them all. */
const MAX_LISTED = 50;

export function exitCodeOfRun(summary: RunSummary): ExitCode {
  if (summary.interrupted) return EXIT.interrupted;
  return summary.failed.length + summary.problems.length > 0 ? EXIT.someFailed : EXIT.done;
}

/** The table at the end of a run, for people. */
export function describeSummary(summary: RunSummary, folder: string): string {
  const { found, done, finished, failed, skipped, noSpeech, audioSeconds, wallSeconds } = summary;
  const rows: [string, string][] = [['files', `${found} found, ${done} done`]];
  if (finished > 0) rows.push(['', `${finished} were finished before`]);
  if (failed.length > 0) rows.push(['', `${failed.length} failed`]);
  if (noSpeech > 0) rows.push(['', `${noSpeech} without speech`]);
  if (skipped > 0) rows.push(['', `${skipped} more are no audio`]);
  rows.push(['audio', `${formatDuration(audioSeconds)} in ${formatDuration(wallSeconds)}`]);
  if (audioSeconds > 0) rows.push(['speed', formatSpeed(summary.timesRealTime)]);
  return textTable(rows) + describeFailures(summary, folder);
}

/** One line per failed input or unreadable folder; empty when there is none. */
export function describeFailures(summary: RunSummary, folder: string): string {
  const failures = [...summary.failed, ...summary.problems];
  if (failures.length === 0) return '';
  const listed = failures
    .slice(0, MAX_LISTED)
    .map((failure) => `  ${describeProblem(failure, folder)}`);
  const more = failures.length - listed.length;
  return ['failed:', ...listed, ...(more > 0 ? [`  … and ${more} more`] : []), ''].join('\n');
}

/** The summary for programs. */
export function summaryJson(summary: RunSummary): string {
  return `${JSON.stringify(summary)}\n`;
}

/** One line for what a watch tells; undefined for what it keeps to itself. */
export function describeWatchEvent(event: RunEvent, folder: string): string | undefined {
  if (event.type === 'failed' || event.type === 'problem') return describeProblem(event, folder);
  if (event.type !== 'done') return undefined;
  const speech = event.noSpeech ? ', no speech' : '';
  return `${shownPath(event.path, folder)}: ${formatDuration(event.audioSeconds)} of audio${speech}`;
}

/** `PATH: what happened [CODE]` */
export function describeProblem(failure: InputFailure, folder: string): string {
  const { path: filePath, code, message } = failure;
  return `${shownPath(filePath, folder)}: ${printable(message)} [${code}]`;
}
