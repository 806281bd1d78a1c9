/** Why a job failed, and the way out. */
import { el } from './dom.js';

/** By code of the error table: what whoever sees the failure can do. */
export const WAYS_OUT = {
  INPUT_NOT_FOUND: 'Check the path, and that the workers see the same file system.',
  INPUT_EMPTY: 'The file holds no audio. Send a complete one.',
  INPUT_UNDECODABLE:
    'Play the file to see whether it is sound; converting it with ffmpeg often helps.',
  INPUT_TOO_LARGE: 'Split the recording, or have the limit raised.',
  INPUT_CHANGED: 'Retry once the file is complete.',
  INPUT_FORBIDDEN: 'The server has to be told to allow that folder (--input-root) or address.',
  INPUT_FETCH_FAILED: 'Check that the address works, then retry.',
  FFMPEG_MISSING: 'Install ffmpeg on the worker machine, then retry.',
  MODEL_UNKNOWN: 'Choose one of the models that “wavepool models list” names.',
  MODEL_DOWNLOAD_FAILED: 'Check the network of the worker machine, then retry.',
  MODEL_FILE_INVALID: 'Remove the model and pull it again on the worker machine, then retry.',
  MODEL_LOAD_FAILED: 'Run “wavepool doctor” on the worker machine, then retry.',
  MODEL_LOAD_TIMEOUT: 'The weights take longer to load than is allowed. Retry once they are there.',
  INSUFFICIENT_MEMORY: 'Give the worker fewer slots, a smaller batch or more memory, then retry.',
  BUSY_TIMEOUT: 'Every slot was busy for too long. Add workers, or retry when it is calmer.',
  BUSY_OVERDUE:
    'Everything that runs takes longer than expected. Look at the overview, then retry.',
  JOB_TIMEOUT: 'Split the recording, or allow the job more time.',
  DEADLINE_EXCEEDED: 'It was not ready in time. Submit it again with a later deadline.',
  CANCELLED: 'Somebody cancelled it. Retry to run it after all.',
  STORAGE_FULL: 'Free space where results are stored, then retry.',
  WORKER_CRASHED: 'This input crashes the worker. Please report it; retrying rarely helps.',
  WORKER_GONE: 'The worker ended before it had answered. Look at the overview, then ask again.',
  CPU_UNSUPPORTED: 'Build Wavepool on the worker machine, then retry.',
  REDIS_UNAVAILABLE: 'Redis was away. Retry when it is back.',
  SHUTTING_DOWN: 'The worker was stopping. Retry.',
  INTERNAL: 'Something unforeseen: please report it with the log of the worker. A retry may help.',
};

export function reasonOf({ code, message }) {
  return el('span', {}, el('code', {}, code), ' ', message);
}

export function failureNotice({ code, message }) {
  const wayOut = WAYS_OUT[code];
  return el(
    'div',
    { class: 'notice', role: 'alert' },
    el('strong', {}, code === 'CANCELLED' ? 'Cancelled' : 'This job failed'),
    el('p', {}, message.charAt(0).toUpperCase() + message.slice(1)),
    wayOut && el('p', {}, wayOut),
    el('p', { class: 'small muted' }, 'Code ', el('code', {}, code)),
  );
}
