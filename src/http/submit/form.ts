/** Forms with one file (multipart/form-data), read as they come: the file goes on to the upload store and is never held. */
import { pipeline } from 'node:stream/promises';
import busboy, { type Busboy, type FileInfo } from 'busboy';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { StoredUpload } from '../../storage/upload-store.ts';

const LIMITS = { files: 1, fields: 64, parts: 65, fieldNameSize: 100, fieldSize: 65_536 };
const MAX_NAME = 255;
const NAMELESS = 'audio';

export interface FormFile {
  /** As the sender called it, without a folder. */
  readonly name: string;
  readonly stored: StoredUpload;
}

export interface Form {
  /** What is sent under one name, in order. */
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
    // A file that is broken off fails whoever reads it; without a reader, nobody is to be told.
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
    // It is awaited below; until then its failure also ends the reading.
    file.catch((error: unknown) => limits.abort(error));
  });
  for (const event of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const) {
    parser.on(event, () => limits.abort(tooLarge('the form: it has too many parts')));
  }
  try {
    await pipeline(req.iterator({ destroyOnReturn: false }), parser, { signal: limits.signal });
    return { fields, file: await file };
  } catch (error) {
    // A file under way sees the end of its stream, and leaves nothing.
    await file?.catch(() => undefined);
    throw limits.signal.aborted ? limits.signal.reason : toFormError(error);
  }
}

/** What the sender calls a file, fit to be shown. */
export function cleanName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must go
  const plain = (name.split(/[/\\]/).at(-1) ?? '').replace(/[\u0000-\u001f\u007f]/g, '').trim();
  return plain === '' ? NAMELESS : plain.slice(0, MAX_NAME);
}

/** Browsers write a quotation mark so, by the standard for forms. */
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
