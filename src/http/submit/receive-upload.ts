/** Puts the audio of a request into the upload store while it arrives. */
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { UploadResource } from '../../core/http/api.ts';
import { addUploadOwner } from '../../queue/access/upload-owners.ts';
import type { StoredUpload } from '../../storage/upload-store.ts';
import { type CallContext, uploadOwner } from '../auth/own-work.ts';
import type { Services } from '../services.ts';
import { cleanName, type Form, readForm } from './form.ts';

export interface ReceiveOptions extends CallContext {
  /** Ends the upload; nothing stays. */
  readonly signal: AbortSignal;
  /** See `WriteUploadOptions`. */
  readonly isPrivate?: boolean | undefined;
  /** Instead of what the form calls the file. */
  readonly name?: string | undefined;
}

export interface ReceivedUpload {
  readonly upload: UploadResource;
  /** What came with the file in a form. */
  readonly fields: Form['fields'];
}

/**
 * The body, or the field `file` of a form.
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
    // The rest of the body is of no use to anybody: the connection ends with the answer.
    req.res?.set('Connection', 'close');
    req.resume();
    if (signal.aborted && !(error instanceof WavepoolError)) {
      throw new WavepoolError('CANCELLED', 'the client has gone', { cause: error });
    }
    throw error;
  }
}

/** What a form may need around its file. */
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
