/**
 * Moonshine's tokens. Its tokenizer is that of Llama 2 (32,000 pieces) with 768 timestamp tokens appended, and the
 * package llama-tokenizer-js carries those pieces as one base64 string in its source, which is read here without
 * running the package.
 */
import { invalidModel } from './converter.ts';

const LLAMA_PIECES = 32_000;
const TIMESTAMPS = 768;

/**
 * The piece of every id: 0…2 special, 3…258 the bytes as `<0xNN>`, then text with `▁` for a space, `<<ST_n>>` last.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export function moonshineTokens(source: Uint8Array, file: string): string[] {
  const literal = /\bllama_vocab_base64\s*=\s*"([A-Za-z0-9+/=]+)"/.exec(
    Buffer.from(source).toString('latin1'),
  )?.[1];
  if (literal === undefined) throw invalidModel(file, 'holds no llama_vocab_base64');
  const pieces = Buffer.from(literal, 'base64').toString('utf8').split('\n');
  if (pieces.length !== LLAMA_PIECES) {
    throw invalidModel(file, `${pieces.length} tokens instead of ${LLAMA_PIECES}`);
  }
  const expected = [
    '<unk>',
    '<s>',
    '</s>',
    ...Array.from({ length: 256 }, (_, byte) => bytePiece(byte)),
  ];
  const wrong = expected.findIndex((piece, id) => pieces[id] !== piece);
  if (wrong >= 0) throw invalidModel(file, `token ${wrong} is not ${expected[wrong]}`);
  return [...pieces, ...Array.from({ length: TIMESTAMPS }, (_, index) => `<<ST_${index}>>`)];
}

function bytePiece(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}
