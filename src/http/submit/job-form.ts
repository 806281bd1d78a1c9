/** A job that comes as a form: a file, and the fields of a job request beside it. */
import type { Request } from 'express';
import { JobRequest } from '../../core/http/api.ts';
import { InvalidRequestError, parseRequestPart } from '../../core/http/problem.ts';
import { type ReceiveOptions, receiveUpload } from './receive-upload.ts';

/** Of the others, the text is JSON: numbers, truth values, objects. */
const TEXT_FIELDS = new Set(['model', 'task', 'tenant', 'name']);

/** @throws {WavepoolError} INVALID_REQUEST; see `receiveUpload` */
export async function readJobForm(req: Request, options: ReceiveOptions): Promise<JobRequest> {
  const { upload, fields } = await receiveUpload(req, options);
  const request: Record<string, unknown> = {};
  for (const [name, values] of fields) {
    const [value = '', ...more] = values;
    if (more.length > 0) throw wrongField(name, 'it comes more than once');
    request[name] = TEXT_FIELDS.has(name) ? value : parseField(name, value);
  }
  const { name = upload.name, rawFormat, ...rest } = request;
  const input = { uploadId: upload.id, name, ...(rawFormat === undefined ? {} : { rawFormat }) };
  return parseRequestPart(JobRequest, { ...rest, input }, 'form');
}

function parseField(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (error) {
    throw wrongField(name, 'write numbers, true, false and objects as in JSON', error);
  }
}

function wrongField(path: string, message: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError('form', [{ path, message }], { cause });
}
