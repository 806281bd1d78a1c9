/** Where the audio of a job is, as callers say it and as the interface takes it. */
import type { JobRequestBody, JobState } from '../core/http/api.ts';
import type { AudioSource } from './audio-source.ts';
import type { Uploads } from './uploads.ts';

export type InputDetails = Pick<JobRequestBody['input'], 'name' | 'rawFormat'>;

/** Exactly one of these. */
export type JobSource =
  /** Sent to the server first: see `Uploads.create`. */
  | { readonly file: AudioSource }
  | { readonly uploadId: string }
  /** Fetched by the worker when it gets to the job. */
  | { readonly url: string }
  /** A file of the server, inside its input roots. */
  | { readonly serverPath: string }
  /** `s3://BUCKET/KEY`, below an object root of server and worker. */
  | { readonly object: string };

export interface JobFilter {
  readonly state?: JobState | undefined;
  readonly model?: string | undefined;
  readonly tenant?: string | undefined;
  /** Asked for at once, at most 200. @defaultValue 50 */
  readonly pageSize?: number | undefined;
}

/** The input of a request, after its file was sent. Callers without types may give none or several: the server says so. */
export async function inputOf(
  source: JobSource & InputDetails,
  uploads: Uploads,
  signal: AbortSignal | undefined,
): Promise<JobRequestBody['input']> {
  const { file, uploadId, url, serverPath, object, name, rawFormat } = {
    file: undefined,
    uploadId: undefined,
    url: undefined,
    serverPath: undefined,
    object: undefined,
    ...source,
  };
  const input = { path: serverPath, uploadId, url, object, name, rawFormat };
  if (file === undefined) return input;
  const upload = await uploads.create(file, { name, signal });
  return { ...input, uploadId: upload.id, name: upload.name };
}
