/** Submits a batch of endless items and says how many were asked for; it is there to be killed. Arguments: URL or socket, model, id. */
import { BatchStore, type NewItem } from '../../../src/queue/batches/batches.ts';
import { QueueRegistry } from '../../../src/queue/queue-registry.ts';

const [path = '', model = '', id = ''] = process.argv.slice(2);

function* items(): Generator<NewItem> {
  for (let number = 0; ; number++) {
    if (number % 50 === 0) process.send?.(number);
    yield { input: { kind: 'path', path: `/audio/${number}.wav` } };
  }
}

const queues = await QueueRegistry.open({ address: { kind: 'socket', path }, models: [model] });
await new BatchStore({ queues }).create({ id, model, jobs: items() });
