/**
 * What a server and a worker say to each other about live streams, as messages of Redis' publish and subscribe.
 *
 *   kind (1 byte) · stream (16 bytes, its UUID) · number (4 bytes, from 0 in each direction) · the rest, by kind
 *
 * Messages come in order or not at all; a number that is left out tells that one was lost.
 */
import { z } from 'zod';
import { ERROR_CODES } from '../errors.ts';
import { ModelId } from '../job/job.ts';
import { LiveFormat, LiveTranscribeSettings } from './live.ts';
import { LiveProgressEvent } from './live-api.ts';

/** `open`, `audio`, `end` and `cancel` go to the worker, `word` comes from it; `beat`, both ways, says: still here. */
const KINDS = ['open', 'audio', 'end', 'cancel', 'beat', 'word'] as const;
export type LiveFrameKind = (typeof KINDS)[number];

export interface LiveFrame {
  readonly kind: LiveFrameKind;
  /** A UUID. */
  readonly stream: string;
  readonly number: number;
  readonly payload: Uint8Array;
}

const HEAD_BYTES = 21;

export function encodeLiveFrame({ kind, stream, number, payload }: LiveFrame): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  frame.writeUInt8(KINDS.indexOf(kind), 0);
  frame.write(stream.replaceAll('-', ''), 1, 'hex');
  frame.writeUInt32BE(number % 2 ** 32, 17);
  frame.set(payload, HEAD_BYTES);
  return frame;
}

/** Undefined for what another version says. */
export function decodeLiveFrame(frame: Buffer): LiveFrame | undefined {
  if (frame.length < HEAD_BYTES) return undefined;
  const kind = KINDS[frame.readUInt8(0)];
  if (kind === undefined) return undefined;
  const hex = frame.toString('hex', 1, 17);
  const stream = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { kind, stream, number: frame.readUInt32BE(17), payload: frame.subarray(HEAD_BYTES) };
}

/** Payload of `open`. */
export const LiveOpening = z.strictObject({
  /** Where the server listens. */
  replyTo: z.string(),
  model: ModelId,
  format: LiveFormat,
  options: LiveTranscribeSettings,
  idleTimeoutMs: z.int().min(0),
});
export type LiveOpening = z.infer<typeof LiveOpening>;

/** Payload of `word`. */
export const LiveWord = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('opened') }),
  /** So many bytes have been taken since the beginning: as many more may be sent. */
  z.strictObject({ type: z.literal('taken'), bytes: z.int().min(0) }),
  z.strictObject({ type: z.literal('event'), event: LiveProgressEvent }),
  z.strictObject({
    type: z.literal('done'),
    durationSeconds: z.number(),
    speechSeconds: z.number(),
    segments: z.int(),
  }),
  z.strictObject({ type: z.literal('failed'), code: z.enum(ERROR_CODES), detail: z.string() }),
]);
export type LiveWord = z.infer<typeof LiveWord>;

/** How often both sides say that they are there. */
export const LIVE_BEAT_MS = 1_000;
/** A side that has said nothing for so long is gone. */
export const LIVE_SILENCE_MS = 15_000;

/** What may be on its way to a worker: two seconds, and at least a few network packets. */
export function liveWindowBytes(bytesPerSecond: number): number {
  return Math.max(64 * 1024, 2 * bytesPerSecond);
}
