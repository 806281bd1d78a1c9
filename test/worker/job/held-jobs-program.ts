/**
 * A process that holds a job whose clocks run for hours. With `abort` it ends as native code ends it, right after the job was
 * started; with `idle` it has nothing else to do.
 */
import process from 'node:process';
import { JobClocks } from '../../../src/core/job/job.ts';
import { HeldJobs } from '../../../src/worker/job/held-jobs.ts';

const held = new HeldJobs((message) => process.send?.(message));
const deadlineAt = Date.now() + 3_600_000;
held.taking('q', 'taker');
held.hold('q', 'waits', 'taker:1', JobClocks.parse({ deadlineAt }));
held.hold('q', 'runs', 'taker:2', JobClocks.parse({ timeoutMs: 3_600_000 }));
held.start('q', 'runs');
if (process.argv[2] === 'abort') process.abort();
