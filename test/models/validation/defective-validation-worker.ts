/**
 * The validation worker over the test addon, with a planted defect: the first argument names it, the second the starts that
 * have it (`SLOTS-START`; without one all of them do).
 */
import process from 'node:process';
import { parseValidationRequest } from '../../../src/core/evidence/validation-ipc.ts';
import { faults } from '../../engine/test-addon.ts';
import '../../../workers/validation-worker.ts';

const [, , defect = '', only] = process.argv;

process.prependListener('message', (raw) => {
  const request = parseValidationRequest(raw);
  if (request?.type !== 'start' || defect === '') return;
  const { slots, cold } = request.plan;
  const start = (cold[0] ?? 0) + 1;
  if (only === undefined || only === `${slots}-${start}`) faults().setFault(defect, true);
});
