/** Reads forms with one file (multipart/form-data). The file is passed on while it arrives and is never held in memory. */
import { pipeline } from 'node:stream/promises';
import busboy, { type Busboy, type FileInfo } from 'busboy';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { StoredUpload } from '../../storage/upload-store.ts';

const LIMITS = { files: 1, fields: 64, parts: 65, fieldNameSize: 100, fieldSize: 65_536 };
const MAX_NAME = 255;
const NAMELESS = 'audio';

export interface FormFile {
  /** The name that the sender gave the file, without a folder. */
  readonly name: string;
  readonly stored: StoredUpload;
}

export interface Form {
  /** The values of each field, in the order in which they were sent. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly file: FormFile | undefined;
}

export type StoreFile = (bytes: AsyncIterable<Uint8Array>) => Promise<StoredUpload>;

/**
 * Reads the whole form. The file must be in the field `file`.
 * @throws {WavepoolError} INVALID_REQUEST, REQUEST_TOO_LARGE; what `storeFile` throws
 */
export async function readForm(req: Request, storeFile: StoreFile): Promise<Form> {
  const parser = openParser(req);
  const fields = new Map<string, string[]>();
  const limits = new AbortController();
  let file: Promise<FormFile> | undefined;
  parser.on('field', (name, value, { nameTruncated, valueTruncated }) => {
    if (nameTruncated || valueTruncated) limits.abort(tooLarge(`the field ${name}`));
    fields.set(name, [...(fields.get(name) ?? []), value]);
  });
  parser.on('file', (field, bytes, info) => {
    // The reader of a file that breaks off gets the error. Without a reader the error must not end the process.
    bytes.on('error', () => undefined);
    if (field !== 'file') {
      const problem = new WavepoolError(
        'INVALID_REQUEST',
        `the file belongs in the field "file", not in "${field}"`,
      );
      bytes.resume();
      limits.abort(problem);
      return;
    }
    file = storeFile(bytes).then((stored) => ({ name: nameOf(info), stored }));
    // The file is awaited below. If it fails before, the form is not read any further.
    file.catch((error: unknown) => limits.abort(error));
  });
  for (const event of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const) {
    parser.on(event, () => limits.abort(tooLarge('the form: it has too many parts')));
  }
  try {
    await pipeline(req.iterator({ destroyOnReturn: false }), parser, { signal: limits.signal });
    return { fields, file: await file };
  } catch (error) {
    // The store sees that the stream of the file broke off, and keeps nothing of it.
    await file?.catch(() => undefined);
    throw limits.signal.aborted ? limits.signal.reason : toFormError(error);
  }
}

/** A file name of a sender, made safe to show. */
export function cleanName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be removed
  const plain = (name.split(/[/\\]/).at(-1) ?? '').replace(/[\u0000-\u001f\u007f]/g, '').trim();
  return plain === '' ? NAMELESS : plain.slice(0, MAX_NAME);
}

/** The standard for forms has browsers write a quotation mark as `%22`. */
function nameOf({ filename }: FileInfo): string {
  return cleanName((filename ?? '').replaceAll('%22', '"'));
}

function openParser(req: Request): Busboy {
  try {
    return busboy({ headers: req.headers, limits: LIMITS, defParamCharset: 'utf8' });
  } catch (error) {
    throw toFormError(error);
  }
}

function tooLarge(what: string): WavepoolError {
  return new WavepoolError('REQUEST_TOO_LARGE', what);
}

function toFormError(error: unknown): unknown {
  if (error instanceof WavepoolError || !(error instanceof Error)) return error;
  if ('code' in error && error.code === 'ECONNRESET') {
    return new WavepoolError('CANCELLED', 'the client has gone', { cause: error });
  }
  if (
    'code' in error &&
    typeof error.code === 'string' &&
    error.code !== 'ERR_STREAM_PREMATURE_CLOSE'
  )
    return error;
  return new WavepoolError('INVALID_REQUEST', `the form is damaged: ${error.message}`, {
    cause: error,
  });
}
