import { once } from 'node:events';
import { expect, test } from 'vitest';
import { Outbox } from '../../../src/worker/job/outbox.ts';

function outbox() {
  const sent: (readonly number[])[] = [];
  const arrived = new EventTarget();
  const box = new Outbox<number>((messages) => {
    sent.push(messages);
    arrived.dispatchEvent(new Event('sent'));
  });
  return { box, sent, next: () => once(arrived, 'sent') };
}

test('messages of one turn go out together and in order, those of the next turn by themselves', async () => {
  const { box, sent, next } = outbox();
  const first = next();
  box.post(1);
  box.post(2);
  expect(sent).toEqual([]);
  await first;
  const second = next();
  box.post(3);
  await second;
  expect(sent).toEqual([[1, 2], [3]]);
});

test('what waits is sent at once when the process is about to end, and not twice', async () => {
  const { box, sent, next } = outbox();
  box.post(1);
  box.flush();
  box.flush();
  expect(sent).toEqual([[1]]);
  const later = next();
  box.post(2);
  await later;
  expect(sent).toEqual([[1], [2]]);
});
