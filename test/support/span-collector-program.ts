/** A collector of spans in a process of its own: takes OTLP over HTTP as JSON, and tells what it has when it is asked. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import process from 'node:process';
import { json } from 'node:stream/consumers';

/** As OTLP names them, as far as tests look at them. */
export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
  /** Of the process that sent it. */
  readonly role: string;
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: CollectedSpan['attributes'] };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<CollectedSpan, 'role'>[] }[];
  }[];
}

const spans: CollectedSpan[] = [];

const server = createServer((request, response) => {
  void json(request).then((body) => {
    const { resourceSpans } = body as Export; // What it is not fails the test.
    for (const { resource, scopeSpans } of resourceSpans) {
      const role = resource.attributes.find(({ key }) => key === 'wavepool.role')?.value ?? {};
      const sent = scopeSpans.flatMap((scope) => scope.spans);
      spans.push(...sent.map((span) => ({ ...span, role: String(Object.values(role)[0]) })));
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
});
server.listen(0, '127.0.0.1', () => {
  // A server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  process.send?.(`http://127.0.0.1:${port}`);
});
process.on('message', () => process.send?.(spans));
process.on('disconnect', () => process.exit());
