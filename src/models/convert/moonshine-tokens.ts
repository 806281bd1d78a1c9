/**
 * Moonshine's tokens. Its tokenizer is that of Llama 2 (32,000 pieces) with 768 timestamp tokens appended, and the
 * package llama-tokenizer-js carries those pieces as one base64 string in its source, which is read here without
 * running the package. A tokens.txt, one piece and its id a line, does as well.
 */
import { invalidFile } from '../files/byte-source.ts';

const LLAMA_PIECES = 32_000;
const TIMESTAMPS = 768;

/**
 * The piece of every id: 0…2 special, 3…258 the bytes as `<0xNN>`, then text with `▁` for a space, `<<ST_n>>` last.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export function moonshineTokens(source: Uint8Array, file: string): string[] {
  const text = Buffer.from(source);
  const literal = /\bllama_vocab_base64\s*=\s*"([A-Za-z0-9+/=]+)"/.exec(
    text.toString('latin1'),
  )?.[1];
  const pieces =
    literal === undefined
      ? listedPieces(text.toString('utf8'), file)
      : Buffer.from(literal, 'base64').toString('utf8').split('\n');
  if (pieces.length !== LLAMA_PIECES) {
    throw invalidFile(file, `${pieces.length} tokens instead of ${LLAMA_PIECES}`);
  }
  const expected = [
    '<unk>',
    '<s>',
    '</s>',
    ...Array.from({ length: 256 }, (_, byte) => bytePiece(byte)),
  ];
  const wrong = expected.findIndex((piece, id) => pieces[id] !== piece);
  if (wrong >= 0) throw invalidFile(file, `token ${wrong} is not ${expected[wrong]}`);
  return [...pieces, ...Array.from({ length: TIMESTAMPS }, (_, index) => `<<ST_${index}>>`)];
}

function bytePiece(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}

/** The pieces of a tokens.txt with text of their own. */
function listedPieces(text: string, file: string): string[] {
  const pieces: string[] = [];
  for (const line of text.split('\n')) {
    const [, piece, digits] = /^(.*)[\t ](\d{1,6})\r?$/.exec(line) ?? [];
    if (piece === undefined || digits === undefined) continue;
    if (Number(digits) < LLAMA_PIECES) pieces[Number(digits)] = piece;
  }
  const missing = Array.from({ length: LLAMA_PIECES }, (_, id) => id).find(
    (id) => pieces[id] === undefined,
  );
  if (missing === undefined) return pieces;
  throw invalidFile(file, `holds neither llama_vocab_base64 nor a line for token ${missing}`);
}
