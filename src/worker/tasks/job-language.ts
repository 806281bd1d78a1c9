/**
 * Finds the language of one job, once. Where it was not given and the model can tell, the first stretch of speech of at
 * least four seconds decides, or the longest of the first three when all are shorter; an input with less speech has its
 * longest stretch decide. Later stretches are recognized in that language. A stretch in which no words were found decides
 * nothing.
 *
 *   open ──a stretch is chosen──▶ deciding ──words found──▶ decided
 *     ◀────────no words────────────┘
 */
import type { FoundWords } from '../speech/find-words.ts';

const LONG_ENOUGH_SECONDS = 4;
const MOST_CANDIDATES = 3;

/** Recognizes a stretch, in the language if there is one. */
export type Recognize = (language: string | undefined) => Promise<FoundWords>;

interface Candidate {
  readonly seconds: number;
  /** Called with true when this stretch decides; with false when another one decided, or none did. */
  readonly proceed: (decides: boolean) => void;
  readonly fail: (reason: unknown) => void;
}

export interface JobLanguageOptions {
  readonly given: string | undefined;
  /** Whether the model finds out what is spoken. */
  readonly detects: boolean;
  /** Ends every wait. */
  readonly signal: AbortSignal;
}

export class JobLanguage {
  readonly #signal: AbortSignal;
  #state: 'open' | 'deciding' | 'decided';
  #language: string | undefined;
  /** Whether to decide without waiting for more stretches. */
  #urgent = false;
  #waiting: Candidate[] = [];

  constructor({ given, detects, signal }: JobLanguageOptions) {
    this.#language = given;
    this.#state = given === undefined && detects ? 'open' : 'decided';
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#failWaiting(signal.reason), { once: true });
  }

  /** The language that was given or detected. */
  get language(): string | undefined {
    return this.#language;
  }

  /**
   * Recognizes a stretch of speech, once it is known in which language. Call in the order of the audio.
   * @throws what `recognize` throws, or the reason of the signal
   */
  async recognize(seconds: number, recognize: Recognize): Promise<FoundWords> {
    for (;;) {
      this.#signal.throwIfAborted();
      if (this.#state === 'decided') return recognize(this.#language);
      if (await this.#decides(seconds)) return this.#decideBy(await this.#attempt(recognize));
    }
  }

  /** Lets the longest stretch so far decide, because there is no more speech or no room to wait for it. */
  decideNow(): void {
    this.#urgent = true;
    this.#choose();
  }

  #decides(seconds: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ seconds, proceed: resolve, fail: reject });
      this.#choose();
    });
  }

  #choose(): void {
    if (this.#state !== 'open' || this.#waiting.length === 0) return;
    const longest = this.#waiting.reduce((best, each) =>
      each.seconds > best.seconds ? each : best,
    );
    const enough =
      longest.seconds >= LONG_ENOUGH_SECONDS || this.#waiting.length >= MOST_CANDIDATES;
    if (!enough && !this.#urgent) return;
    this.#state = 'deciding';
    this.#waiting = this.#waiting.filter((each) => each !== longest);
    longest.proceed(true);
  }

  async #attempt(recognize: Recognize): Promise<FoundWords> {
    try {
      return await recognize(undefined);
    } catch (error) {
      this.#failWaiting(error);
      throw error;
    }
  }

  #decideBy(found: FoundWords): FoundWords {
    const { text, language } = found.result;
    this.#state = text === '' ? 'open' : 'decided';
    if (text !== '' && language !== '') this.#language = language;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { proceed } of waiting) proceed(false);
    return found;
  }

  #failWaiting(reason: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { fail } of waiting) fail(reason);
  }
}
