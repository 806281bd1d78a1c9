/** Addresses of the HTTP interface, relative to its own. */

export function jobLinks(id: string) {
  const self = `/v1/jobs/${encodeURIComponent(id)}`;
  return { self, result: `${self}/result`, events: `${self}/events` };
}

export function batchLinks(id: string) {
  const self = `/v1/batches/${encodeURIComponent(id)}`;
  return { self, items: `${self}/items`, results: `${self}/results` };
}
