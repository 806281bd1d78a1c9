/** Audio that is sent before the jobs that use it. */
import { UploadQuery, UploadResource } from '../../core/api.ts';
import { receiveUpload } from '../receive-upload.ts';
import { route } from '../route.ts';

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
    query: UploadQuery,
    consumes: ['application/octet-stream', 'multipart/form-data', '*/*'],
    responses: {
      201: { description: 'Stored; jobs name it by its id.', schema: UploadResource },
    },
    errors: ['INPUT_TOO_LARGE', 'INPUT_EMPTY', 'STORAGE_FULL'],
    handle: async ({ req, query, services, signal }) => {
      const { upload } = await receiveUpload(req, { services, signal, name: query.name });
      return { status: 201, json: upload };
    },
  }),
];
