/** Schedules, which add a job again and again. */
import { WavepoolError } from '../../core/errors.ts';
import {
  ScheduleList,
  ScheduleParams,
  ScheduleRequest,
  ScheduleResource,
} from '../../core/http/tenant-api.ts';
import type { ScheduleId } from '../../core/job/schedule.ts';
import type { ScheduleView } from '../../queue/schedules.ts';
import { maySee } from '../auth/caller.ts';
import type { CallContext } from '../auth/own-work.ts';
import { route } from '../request/route.ts';
import { inputResource, isoTimeOrNull } from '../resources/job-resource.ts';
import { newJob, resolveRequestInput, withTenant } from '../submit/submit-job.ts';
import { queueForTask } from '../submit/task-queue.ts';

const listSchedules = route({
  method: 'get',
  path: '/v1/schedules',
  name: 'listSchedules',
  tag: 'schedules',
  summary: 'Schedules',
  scope: 'read',
  forTenants: true,
  responses: {
    200: { description: 'Those that come due first come first.', schema: ScheduleList },
  },
  handle: async ({ services, caller }) => {
    const all = await services.schedules.list();
    const own = all.filter(({ scheduled }) => maySee(caller, scheduled.job.tenant));
    return { status: 200, json: { items: own.map(scheduleResource) } };
  },
});

const setSchedule = route({
  method: 'put',
  path: '/v1/schedules/:id',
  name: 'setSchedule',
  tag: 'schedules',
  summary: 'Add a job again and again',
  description:
    'A job request, and when: `cron` with a `timezone`, or `everyMs`. Replaces the schedule of that id. Each time an ordinary job `schedule-ID-TIME` is added; `deadlineMs` counts from then. What came due while no server and no worker was there is added once when one is back.',
  scope: 'submit',
  forTenants: true,
  params: ScheduleParams,
  body: ScheduleRequest,
  responses: { 200: { description: 'As it stands.', schema: ScheduleResource } },
  errors: [
    'MODEL_UNKNOWN',
    'TASK_UNSUPPORTED',
    'OPTION_UNSUPPORTED',
    'INPUT_NOT_FOUND',
    'INPUT_FORBIDDEN',
  ],
  handle: async ({ params: { id }, body, services, caller }) => {
    const { input: requested, cron, everyMs, timezone, ...asked } = body;
    const settings = withTenant(asked, caller);
    await assertOwnSchedule(id, { services, caller });
    const { model } = await queueForTask(settings, services);
    const input = await resolveRequestInput(requested, { services, caller });
    const { deadlineMs, ...rest } = settings;
    const job = { ...newJob(rest, services.now()), input };
    const when = { cron, everyMs, timezone };
    const view = await services.schedules.set({ id, model, deadlineMs, job, ...when });
    return { status: 200, json: scheduleResource(view) };
  },
});

const removeSchedule = route({
  method: 'delete',
  path: '/v1/schedules/:id',
  name: 'removeSchedule',
  tag: 'schedules',
  summary: 'End a schedule',
  description: 'Jobs that it has added stay.',
  scope: 'submit',
  forTenants: true,
  params: ScheduleParams,
  responses: { 204: { description: 'There is none of this id.' } },
  handle: async ({ params: { id }, services, caller }) => {
    await assertOwnSchedule(id, { services, caller });
    await services.schedules.remove(id);
    return { status: 204 };
  },
});

/**
 * All tenants share the ids of schedules. The error says that an id is in use, but not by whom.
 * @throws {WavepoolError} FORBIDDEN
 */
async function assertOwnSchedule(id: ScheduleId, { services, caller }: CallContext): Promise<void> {
  if (caller.tenant === undefined) return;
  const existing = await services.schedules.get(id);
  if (existing === undefined || maySee(caller, existing.scheduled.job.tenant)) return;
  throw new WavepoolError(
    'FORBIDDEN',
    `the schedule ${id} is not this tenant's: choose another id`,
  );
}

function scheduleResource({ id, scheduled, nextAt, ...when }: ScheduleView): ScheduleResource {
  const { model, job } = scheduled;
  return {
    id,
    model,
    task: job.task,
    tenant: job.tenant,
    input: inputResource(job.input),
    cron: when.cron ?? null,
    everyMs: when.everyMs ?? null,
    timezone: when.timezone ?? null,
    nextAt: isoTimeOrNull(nextAt),
  };
}

export const scheduleRoutes = [listSchedules, setSchedule, removeSchedule];
