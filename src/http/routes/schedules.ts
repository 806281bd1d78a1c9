/** Jobs that come again and again. */
import {
  ScheduleList,
  ScheduleParams,
  ScheduleRequest,
  ScheduleResource,
} from '../../core/tenant-api.ts';
import type { ScheduleView } from '../../queue/schedules.ts';
import { inputResource, isoTimeOrNull } from '../job-resource.ts';
import { route } from '../route.ts';
import { newJob, resolveRequestInput } from '../submit-job.ts';
import { queueForTask } from '../task-queue.ts';

const listSchedules = route({
  method: 'get',
  path: '/v1/schedules',
  name: 'listSchedules',
  tag: 'schedules',
  summary: 'Schedules',
  scope: 'read',
  responses: {
    200: { description: 'Those that come due first come first.', schema: ScheduleList },
  },
  handle: async ({ services }) => {
    const items = (await services.schedules.list()).map(scheduleResource);
    return { status: 200, json: { items } };
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
  handle: async ({ params: { id }, body, services }) => {
    const { input: requested, cron, everyMs, timezone, ...settings } = body;
    const { model } = await queueForTask(settings, services);
    const input = await resolveRequestInput(requested, services);
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
  params: ScheduleParams,
  responses: { 204: { description: 'There is none of this id.' } },
  handle: async ({ params: { id }, services }) => {
    await services.schedules.remove(id);
    return { status: 204 };
  },
});

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
