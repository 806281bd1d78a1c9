/** Stores the audio that comes with a request while it arrives. */
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { JobRequest, type UploadResource } from '../../core/http/api.ts';
import { InvalidRequestError, parseRequestPart } from '../../core/http/problem.ts';
import { addUploadOwner } from '../../queue/access/upload-owners.ts';
import type { StoredUpload } from '../../storage/upload-store.ts';
import { type CallContext, uploadOwner } from '../auth/own-work.ts';
import type { Services } from '../services.ts';
import { cleanName, type Form, readForm } from './form.ts';

export interface ReceiveOptions extends CallContext {
  /** Ends the upload; what was stored of it is removed. */
  readonly signal: AbortSignal;
  /** See `WriteUploadOptions`. */
  readonly isPrivate?: boolean | undefined;
  /** Replaces the name that the form gives the file. */
  readonly name?: string | undefined;
}

export interface ReceivedUpload {
  readonly upload: UploadResource;
  /** The other fields of the form. */
  readonly fields: Form['fields'];
}

/**
 * Stores the body, or the field `file` of a form.
 * @throws {WavepoolError} INPUT_TOO_LARGE, INPUT_EMPTY, INVALID_REQUEST, STORAGE_FULL
 */
export async function receiveUpload(
  req: Request,
  options: ReceiveOptions,
): Promise<ReceivedUpload> {
  const { services, caller, signal, isPrivate, name } = options;
  const maxBytes = services.settings.maxUploadBytes;
  const store = async (bytes: AsyncIterable<Uint8Array>): Promise<StoredUpload> => {
    const stored = await services.uploads.write(bytes, { maxBytes, isPrivate, signal });
    await addUploadOwner(services.queues.connection, stored.id, uploadOwner(caller));
    return stored;
  };
  try {
    if (Number(req.get('content-length') ?? 0) > maxBytes + FORM_ALLOWANCE) {
      throw new WavepoolError('INPUT_TOO_LARGE', `more than ${maxBytes} bytes`);
    }
    if (req.is('multipart/form-data') === false) {
      const stored = await store(req.iterator({ destroyOnReturn: false }));
      return { upload: uploadResource(stored, cleanName(name ?? ''), services), fields: new Map() };
    }
    const { fields, file } = await readForm(req, store);
    if (file === undefined) {
      throw new WavepoolError('INVALID_REQUEST', 'the form has no file in its field "file"');
    }
    const shown = name === undefined ? file.name : cleanName(name);
    return { upload: uploadResource(file.stored, shown, services), fields };
  } catch (error) {
    // Nobody needs the rest of the body, so the connection ends with the answer.
    req.res?.set('Connection', 'close');
    req.resume();
    if (signal.aborted && !(error instanceof WavepoolError)) {
      throw new WavepoolError('CANCELLED', 'the client has gone', { cause: error });
    }
    throw error;
  }
}

/** How many bytes a form may have besides its file. */
const FORM_ALLOWANCE = 1024 ** 2;

export function uploadResource(
  { id, bytes, usedAt }: StoredUpload,
  name: string,
  { settings }: Services,
): UploadResource {
  return {
    id,
    name,
    bytes,
    createdAt: new Date(usedAt).toISOString(),
    expiresAt: new Date(usedAt + settings.uploadRetentionMs).toISOString(),
  };
}

/** The values of these fields are text; those of all others are JSON. */
const TEXT_FIELDS = new Set(['model', 'task', 'tenant', 'name']);

/**
 * Reads a job request from a form: the audio as a file, and the members of the request as fields.
 * @throws {WavepoolError} INVALID_REQUEST; see `receiveUpload`
 */
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
