/** Adds the jobs of schedules when they come due: a part of housekeeping. */
import { type Job, Queue, Worker } from 'bullmq';
import type { ModelId } from '../../core/job/job.ts';
import { ScheduledJob, scheduledJobId } from '../../core/job/schedule.ts';
import type { Logger } from '../../core/logger.ts';
import { JobIntake } from '../../queue/job-intake.ts';
import { prepareJob } from '../../queue/jobs/prepared-job.ts';
import type { openConnection } from '../../queue/redis/connection.ts';
import { queueNameOf, queuePrefix, SCHEDULE_QUEUE } from '../../queue/redis/queue-names.ts';

export interface ScheduleRunnerOptions {
  readonly connection: ReturnType<typeof openConnection>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly logger: Logger;
}

interface Intake {
  readonly queue: Queue;
  readonly intake: JobIntake;
}

export class ScheduleRunner {
  readonly #options: ScheduleRunnerOptions;
  readonly #worker: Worker;
  readonly #intakes = new Map<ModelId, Intake>();

  constructor(options: ScheduleRunnerOptions) {
    const { connection, logger } = options;
    this.#options = options;
    this.#worker = new Worker(SCHEDULE_QUEUE, (job) => this.#run(job), {
      connection,
      prefix: queuePrefix(connection),
      maxStalledCount: 1_000,
    });
    this.#worker.on('error', (err) => logger.debug({ err }, 'schedules'));
    this.#worker.on('failed', (_job, err) =>
      logger.warn({ err }, 'a schedule could not be served'),
    );
  }

  /** Waits until the jobs that have come due are added. */
  async close(): Promise<void> {
    await this.#worker.close();
    for (const { queue, intake } of this.#intakes.values()) {
      await intake.close();
      await queue.close();
    }
  }

  async #run(due: Job): Promise<undefined> {
    const { now, logger } = this.#options;
    const { model, deadlineMs, job } = ScheduledJob.parse(due.data);
    const schedule = due.repeatJobKey ?? '';
    // The id that BullMQ gives to such a job ends with its time.
    const [dueAt = ''] = String(due.id).split(':').slice(-1);
    const submittedAt = now();
    const deadline = deadlineMs === undefined ? {} : { deadlineAt: submittedAt + deadlineMs };
    const id = scheduledJobId(schedule, Number(dueAt));
    const clocks = { ...job.clocks, ...deadline };
    const prefix = queuePrefix(this.#options.connection);
    const prepared = prepareJob({ ...job, id, clocks }, { model, submittedAt, prefix });
    await this.#intakeOf(model).add(prepared);
    logger.info({ schedule, jobId: id, queue: model }, 'a schedule has come due');
    return undefined;
  }

  #intakeOf(model: ModelId): JobIntake {
    const known = this.#intakes.get(model);
    if (known !== undefined) return known.intake;
    const { connection, logger } = this.#options;
    const queue = new Queue(queueNameOf(model), { connection, prefix: queuePrefix(connection) });
    queue.on('error', (err) => logger.debug({ err }, 'schedules'));
    const intake = new JobIntake({ connection, queue, model });
    this.#intakes.set(model, { queue, intake });
    return intake;
  }
}
