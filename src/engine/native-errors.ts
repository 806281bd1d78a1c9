/** Errors of native code become errors of the table. */
import { isErrorCode, toWavepoolError, WavepoolError } from '../core/errors.ts';

/** The error of the table that a native error stands for. */
export function fromNative(thrown: unknown): WavepoolError {
  if (!(thrown instanceof WavepoolError) && thrown instanceof Error && 'code' in thrown) {
    const { code } = thrown;
    if (isErrorCode(code)) return new WavepoolError(code, thrown.message, { cause: thrown });
  }
  return toWavepoolError(thrown);
}

export async function native<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fromNative(error);
  }
}

export function nativeSync<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw fromNative(error);
  }
}
