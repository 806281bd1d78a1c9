/** What `jobs` shows to people. */
import type { JobView } from '../../queue/jobs/job-view.ts';
import { describeInput } from '../../storage/inputs.ts';
import { formatDuration } from './quantities.ts';
import { printable, shownPath } from './run-report.ts';
import { textTable } from './text-table.ts';

/** @param now milliseconds since 1970 */
export function jobTable(views: readonly JobView[], now: number, folder: string): string {
  if (views.length === 0) return 'no jobs\n';
  const rows = views.map((view) => [
    view.id,
    view.data.model,
    view.state,
    `${formatDuration(Math.max(0, now - view.data.submittedAt) / 1_000)} ago`,
    shownPath(inputOf(view), folder),
    noteOf(view),
  ]);
  return textTable([['job', 'model', 'state', 'submitted', 'input', 'note'], ...rows]);
}

function noteOf({ failure, progress, outcome }: Pick<JobView, 'failure' | 'progress' | 'outcome'>) {
  if (failure !== undefined) return `${printable(failure.message)} [${failure.code}]`;
  if (outcome !== undefined) return `${formatDuration(outcome.durationSeconds)} of audio`;
  if (progress === undefined) return '';
  const { processedSeconds, totalSeconds } = progress;
  const total = totalSeconds === null ? '' : ` of ${formatDuration(totalSeconds)}`;
  return `${formatDuration(processedSeconds)}${total}`;
}

/** Everything about one job, a line each. */
export function describeJob(view: JobView): string {
  const { data, failure, outcome } = view;
  const rows: [string, string | undefined][] = [
    ['job', view.id],
    ['model', data.model],
    ['state', view.state],
    ['input', printable(inputOf(view))],
    ['tenant', data.tenant],
    ['priority', String(view.priority)],
    ['attempts', String(view.attemptsMade)],
    ['crashes', data.crashCount > 0 ? String(data.crashCount) : undefined],
    ['submitted', timeOf(data.submittedAt)],
    ['started', timeOf(view.startedAt)],
    ['finished', timeOf(view.finishedAt)],
    ['deadline', timeOf(data.clocks.deadlineAt)],
    ['progress', outcome === undefined ? noteOf({ ...view, failure: undefined }) : undefined],
    ['audio', outcome && formatDuration(outcome.durationSeconds)],
    ['segments', outcome && String(outcome.segments)],
    ['waited', outcome && formatDuration(outcome.timings.queuedMs / 1_000)],
    ['ran', outcome && formatDuration(outcome.timings.totalMs / 1_000)],
    ['result', outcome?.resultKey],
    ['warnings', outcome?.warnings.join(', ')],
    ['failure', failure && `${printable(failure.message)} [${failure.code}]`],
  ];
  return textTable(
    rows.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, value]])),
  );
}

function inputOf({ data: { input } }: JobView): string {
  return describeInput(input);
}

function timeOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
