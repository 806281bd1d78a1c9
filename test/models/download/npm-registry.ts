/** A small npm registry on a local port, serving one package that is packed on the spot. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { create } from 'tar';
import type { NpmSource } from '../../../src/models/catalogue/source.ts';

export interface TestRegistry extends AsyncDisposable {
  readonly url: string;
  /** The package as a catalogue would pin it, with every file of it. */
  readonly source: NpmSource;
  /** Headers of the requests so far. */
  readonly requests: IncomingHttpHeaders[];
  /** Makes every later request end with this status. */
  failWith(status: number): void;
}

export async function startRegistry(
  name: string,
  files: Readonly<Record<string, string>>,
): Promise<TestRegistry> {
  const version = '1.0.0';
  const tarball = await pack(name, version, files);
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const requests: IncomingHttpHeaders[] = [];
  let status = 200;

  const server = createServer((request, response) => {
    requests.push(request.headers);
    if (status !== 200) {
      response.writeHead(status).end();
    } else if (request.url?.endsWith('.tgz')) {
      response.end(tarball);
    } else {
      const dist = { tarball: `${url}/package.tgz`, integrity };
      const manifest = { name, version, dist };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ name, versions: { [version]: manifest } }));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const url = `http://127.0.0.1:${address.port}`;

  return {
    url,
    requests,
    source: {
      kind: 'npm',
      name,
      version,
      integrity,
      tarballBytes: tarball.length,
      license: 'MIT',
      files: Object.entries(files).map(([file, text]) => ({
        name: file,
        path: file,
        bytes: Buffer.byteLength(text),
        sha256: createHash('sha256').update(text).digest('hex'),
      })),
    },
    failWith(code) {
      status = code;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function pack(
  name: string,
  version: string,
  files: Readonly<Record<string, string>>,
): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'wavepool-package-'));
  try {
    const all = { ...files, 'package.json': JSON.stringify({ name, version }) };
    for (const [file, text] of Object.entries(all)) {
      const location = path.join(folder, 'package', file);
      await mkdir(path.dirname(location), { recursive: true });
      await writeFile(location, text);
    }
    return await buffer(create({ gzip: true, cwd: folder }, ['package']));
  } finally {
    await rm(folder, { recursive: true });
  }
}
