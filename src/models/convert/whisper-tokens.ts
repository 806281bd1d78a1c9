/** The text of Whisper's tokens, from a tokenizer.json: byte-level BPE, whose characters stand for single bytes. */
import { memberOf } from '../../core/lenient-parse.ts';
import { invalidFile } from '../files/byte-source.ts';
import { TEXT_TOKENS } from '../files/ggml-whisper-file.ts';

/**
 * The bytes of every text token, by id.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export function whisperTokens(json: Uint8Array, file: string): Uint8Array[] {
  const vocabulary = readVocabulary(json, file);
  const bytes = byteCharacters();
  const tokens = new Array<Uint8Array | undefined>(TEXT_TOKENS);
  for (const [text, id] of vocabulary) {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0) {
      throw invalidFile(file, `the token ${JSON.stringify(text)} has no id`);
    }
    if (id >= TEXT_TOKENS) continue;
    if (tokens[id] !== undefined) throw invalidFile(file, `two tokens have the id ${id}`);
    tokens[id] = Uint8Array.from(text, (character) => {
      const byte = bytes.get(character);
      if (byte === undefined) throw invalidFile(file, `token ${id} is no byte-level text`);
      return byte;
    });
  }
  return Array.from(tokens, (token, id) => {
    if (token === undefined) throw invalidFile(file, `there is no token ${id}`);
    return token;
  });
}

function readVocabulary(json: Uint8Array, file: string): readonly (readonly [string, unknown])[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(json).toString('utf8'));
  } catch (thrown) {
    throw invalidFile(file, `is no JSON (${thrown instanceof Error ? thrown.message : 'damaged'})`);
  }
  const vocabulary = memberOf(memberOf(parsed, 'model'), 'vocab');
  if (typeof vocabulary !== 'object' || vocabulary === null) {
    throw invalidFile(file, 'holds no model.vocab');
  }
  return Object.entries(vocabulary);
}

/** Printable Latin-1 characters are themselves; the other bytes, in their order, are the characters from U+0100 on. */
function byteCharacters(): ReadonlyMap<string, number> {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte !== 0xad);
  let next = 0x1_00;
  return new Map(
    Array.from({ length: 0x1_00 }, (_, byte) => {
      return [String.fromCodePoint(isPrintable(byte) ? byte : next++), byte] as const;
    }),
  );
}
