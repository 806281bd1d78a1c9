/** Uploads: audio that is sent before the jobs that use it. */

import { WavepoolError } from '../../core/errors.ts';
import {
  ConfirmRequest,
  PresignRequest,
  PresignResource,
  UploadQuery,
  UploadResource,
} from '../../core/http/api.ts';
import { addUploadOwner } from '../../queue/access/upload-owners.ts';
import type { AnnouncedUpload, DirectUploads } from '../../storage/upload-store.ts';
import { ownsUpload, uploadOwner } from '../auth/own-work.ts';
import { route } from '../request/route.ts';
import type { Services } from '../services.ts';
import { cleanName } from '../submit/form.ts';
import { receiveUpload, uploadResource } from '../submit/receive-upload.ts';

export const uploadRoutes = [
  route({
    method: 'post',
    path: '/v1/uploads',
    name: 'createUpload',
    tag: 'uploads',
    summary: 'Store audio for jobs',
    description:
      'The bytes are the body, or the `file` of a form. The same bytes are stored once. An upload that no unfinished job uses is removed some time after its last use.',
    scope: 'submit',
    forTenants: true,
    query: UploadQuery,
    consumes: ['application/octet-stream', 'multipart/form-data', '*/*'],
    responses: {
      201: { description: 'Stored; jobs name it by its id.', schema: UploadResource },
    },
    errors: ['INPUT_TOO_LARGE', 'INPUT_EMPTY', 'STORAGE_FULL', 'STORAGE_UNAVAILABLE'],
    handle: async ({ req, query, services, caller, signal }) => {
      const options = { services, caller, signal, name: query.name };
      const { upload } = await receiveUpload(req, options);
      return { status: 201, json: upload };
    },
  }),
  route({
    method: 'post',
    path: '/v1/uploads/presign',
    name: 'presignUpload',
    tag: 'uploads',
    summary: 'Get an address to put audio straight into the object storage',
    description:
      'For servers with object storage. PUT the bytes to the address with its headers, then confirm them: nothing counts before. Bytes that are stored already need not be sent: then the upload comes instead of an address.',
    scope: 'submit',
    forTenants: true,
    body: PresignRequest,
    responses: {
      200: { description: 'These bytes are stored already.', schema: UploadResource },
      201: { description: 'Where they are to be put.', schema: PresignResource },
    },
    errors: ['INPUT_TOO_LARGE', 'PRESIGN_UNSUPPORTED', 'STORAGE_UNAVAILABLE'],
    handle: async ({ body, services, caller }) => {
      const { name = '', ...announced } = body;
      assertFits(announced, services);
      const direct = directUploads(services);
      const isOwn = await ownsUpload(announced.sha256, { services, caller });
      const known = isOwn ? await direct.find(announced.sha256) : undefined;
      if (known !== undefined) {
        return { status: 200, json: uploadResource(known, cleanName(name), services) };
      }
      const { expiresAt, ...presigned } = await direct.presign(announced);
      const until = new Date(expiresAt).toISOString();
      return { status: 201, json: { ...presigned, method: 'PUT', expiresAt: until } };
    },
  }),
  route({
    method: 'post',
    path: '/v1/uploads/confirm',
    name: 'confirmUpload',
    tag: 'uploads',
    summary: 'Say that the audio is where it was to be put',
    description:
      'The server reads it once. Bytes that are not what was announced are removed. May be sent again.',
    scope: 'submit',
    forTenants: true,
    body: ConfirmRequest,
    responses: {
      201: { description: 'Stored; jobs name it by its id.', schema: UploadResource },
    },
    errors: ['INPUT_TOO_LARGE', 'UPLOAD_MISMATCH', 'PRESIGN_UNSUPPORTED', 'STORAGE_UNAVAILABLE'],
    handle: async ({ body, services, caller, signal }) => {
      const { name = '', token, ...announced } = body;
      assertFits(announced, services);
      const { sha256 } = announced;
      const isKnown = await ownsUpload(sha256, { services, caller });
      const stored = await directUploads(services).confirm(token, announced, { isKnown, signal });
      await addUploadOwner(services.queues.connection, sha256, uploadOwner(caller));
      return { status: 201, json: uploadResource(stored, cleanName(name), services) };
    },
  }),
];

/** @throws {WavepoolError} INPUT_TOO_LARGE */
function assertFits({ bytes }: AnnouncedUpload, { settings: { maxUploadBytes } }: Services): void {
  if (bytes <= maxUploadBytes) return;
  throw new WavepoolError('INPUT_TOO_LARGE', `more than ${maxUploadBytes} bytes`);
}

/** @throws {WavepoolError} PRESIGN_UNSUPPORTED */
function directUploads({ uploads }: Services): DirectUploads {
  if (uploads.direct !== undefined) return uploads.direct;
  throw new WavepoolError('PRESIGN_UNSUPPORTED', 'send the bytes to /v1/uploads');
}
