/** Calls of the server's interface from its own pages. */

/** What the server says of a request that failed: `code` is one of its error table. */
export class ApiError extends Error {
  constructor(status, { code = 'INTERNAL', detail, title } = {}) {
    super(detail ?? title ?? `the server answered ${status}`);
    this.status = status;
    this.code = code;
  }
}

export function goToLogin() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

let session;

/** Who this page acts for: `{ kind, scopes, csrfToken }`. */
export function getSession() {
  session ??= call('/v1/session').catch((error) => {
    session = undefined;
    throw error;
  });
  return session;
}

/** @param signal aborts the call */
export async function call(path, { method = 'GET', body, signal } = {}) {
  const headers = {};
  if (method !== 'GET') Object.assign(headers, await guardHeaders());
  if (body !== undefined) headers['content-type'] = 'application/json';
  const response = await fetch(path, {
    method,
    headers,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 401) goToLogin();
  if (!response.ok)
    throw new ApiError(response.status, await response.json().catch(() => undefined));
  return response.status === 204 ? undefined : response.json();
}

async function guardHeaders() {
  const { csrfToken } = await getSession();
  return csrfToken === null ? {} : { 'x-csrf-token': csrfToken };
}

/** Sends a file as it is; `fetch` cannot tell how far it is, hence the older interface. */
export async function upload(file, { onProgress, signal }) {
  const headers = await guardHeaders();
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', `/v1/uploads?name=${encodeURIComponent(file.name.slice(0, 255))}`);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.responseType = 'json';
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(loaded, total));
    request.addEventListener('load', () => {
      if (request.status === 401) goToLogin();
      if (request.status === 201) resolve(request.response);
      else reject(new ApiError(request.status, request.response ?? undefined));
    });
    request.addEventListener('error', () =>
      reject(new Error('The connection broke while the file was sent.')),
    );
    request.addEventListener('abort', () => reject(signal.reason));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}
