/** Webhooks as a producer asks for them: an address that is told how a job or a batch ended. */
import { z } from 'zod';

/** The ends of a job. */
export const JobWebhookEvent = z.enum(['completed', 'failed', 'cancelled']);
export type JobWebhookEvent = z.infer<typeof JobWebhookEvent>;

/** `finished`: all items have ended. The others are those of each item. */
export const BatchWebhookEvent = z.enum(['finished', ...JobWebhookEvent.options]);
export type BatchWebhookEvent = z.infer<typeof BatchWebhookEvent>;

const WebhookUrl = z
  .url({ protocol: /^https?$/ })
  .max(2_048)
  .refine((text) => {
    const { username, password } = new URL(text);
    return username === '' && password === '';
  }, 'the address carries no password: deliveries are signed')
  .meta({ description: 'gets a signed POST; see the webhooks of this document' });

export const JobWebhook = z.strictObject({
  url: WebhookUrl,
  events: z
    .array(JobWebhookEvent)
    .min(1)
    .max(JobWebhookEvent.options.length)
    .default([...JobWebhookEvent.options]),
});
export type JobWebhook = z.infer<typeof JobWebhook>;

export const BatchWebhook = z.strictObject({
  url: WebhookUrl,
  events: z
    .array(BatchWebhookEvent)
    .min(1)
    .max(BatchWebhookEvent.options.length)
    .meta({ description: '`finished` is of the batch, the others are of each item' })
    .default(['finished']),
});
export type BatchWebhook = z.infer<typeof BatchWebhook>;
/** What a client sends. */
export type BatchWebhookBody = z.input<typeof BatchWebhook>;

/** What each item of a batch tells; nothing when only the batch itself does. */
export function itemWebhookOf(webhook: BatchWebhook | undefined): JobWebhook | undefined {
  if (webhook === undefined) return undefined;
  const events = webhook.events.filter((event) => event !== 'finished');
  return events.length === 0 ? undefined : { url: webhook.url, events };
}

/** Of Standard Webhooks: 24 to 64 random bytes in base64. */
export const WebhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/, 'a secret is whsec_ and 24 to 64 bytes of base64');
export type WebhookSecret = z.infer<typeof WebhookSecret>;

/** Where deliveries may go, and what they may cost. */
export const WebhookLimits = z.strictObject({
  /** Networks that may be reached though they are not public, such as `10.0.0.0/8`. */
  allowedNetworks: z.array(z.union([z.cidrv4(), z.cidrv6()])).default([]),
  /** Of one attempt, the answer included. */
  timeoutMs: z.int().min(1).default(10_000),
  /** Attempts under way at one host, in one process. */
  perHost: z.int().min(1).default(2),
  /** After the first failure; each later pause is four times as long, up to six hours. */
  backoffMs: z.int().min(1).default(5_000),
  /** How often ends are looked for. */
  followMs: z.int().min(10).default(1_000),
  /** An attempt whose process has died is made again after this. */
  lockMs: z.int().min(1_000).default(30_000),
});
export type WebhookLimits = z.infer<typeof WebhookLimits>;
