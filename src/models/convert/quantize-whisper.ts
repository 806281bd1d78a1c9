/** Makes a Whisper file with matrices in blocks of few bits from a full one, as whisper.cpp's own tool does. */
import { WavepoolError } from '../../core/errors.ts';
import type { Quantization } from '../catalogue/quantization.ts';
import { type ByteSource, FileBytes, invalidFile } from '../files/byte-source.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { BLOCK, F16, F32, GGML_TYPES } from '../files/ggml-types.ts';
import {
  type LocatedTensor,
  QUANTIZED_FILE_TYPES,
  readWhisperFile,
  writeWhisperFile,
} from '../files/ggml-whisper-file.ts';
import { halfValues } from '../files/half-float.ts';
import { quantize } from './quantize.ts';

/** Values that are in memory at a time, whatever the size of the model. */
const CHUNK_VALUES = 2 ** 20;

/**
 * @throws {WavepoolError} MODEL_FILE_INVALID; OPTION_UNSUPPORTED for weights that are quantized already
 */
export async function quantizeWhisper(
  file: string,
  target: string,
  type: Quantization,
  signal?: AbortSignal,
): Promise<WrittenFile> {
  await using source = await FileBytes.open(file);
  const { header, tensors } = await readWhisperFile(source);
  const already = tensors.find((tensor) => tensor.type !== F32 && tensor.type !== F16);
  if (already !== undefined) {
    const detail = `${source.name} is quantized already; quantize the full weights instead`;
    throw new WavepoolError('OPTION_UNSUPPORTED', detail);
  }
  const made = function* () {
    for (const tensor of tensors) {
      signal?.throwIfAborted();
      const isMatrix = tensor.kind === 'matrix';
      const chunks = isMatrix ? quantized(source, tensor, type) : copied(source, tensor);
      yield { ...tensor, type: isMatrix ? GGML_TYPES[type].number : tensor.type, chunks };
    }
  };
  const fileType = QUANTIZED_FILE_TYPES[type];
  return await writeWhisperFile(target, { ...header, fileType }, made());
}

async function* copied(source: ByteSource, tensor: LocatedTensor): AsyncGenerator<Buffer> {
  const most = 4 * CHUNK_VALUES;
  for (let at = 0; at < tensor.bytes; at += most) {
    yield await source.read(tensor.offset + at, Math.min(most, tensor.bytes - at));
  }
}

async function* quantized(
  source: ByteSource,
  tensor: LocatedTensor,
  type: Quantization,
): AsyncGenerator<Buffer> {
  const valueBytes = tensor.type === F16 ? 2 : 4;
  for await (const chunk of copied(source, tensor)) {
    const values = valueBytes === 2 ? fromHalves(chunk) : fromFloats(chunk);
    if (!areFinite(values)) {
      throw invalidFile(source.name, `${tensor.name} holds values that are no numbers`);
    }
    if (values.length % BLOCK !== 0) throw new RangeError(`${tensor.name} is in no blocks`);
    yield quantize(values, type);
  }
}

function fromHalves(chunk: Buffer): Float32Array {
  const table = halfValues();
  const bits = new Uint16Array(chunk.buffer, chunk.byteOffset, chunk.length / 2);
  const values = new Float32Array(bits.length);
  for (let at = 0; at < values.length; at++) values[at] = table[bits[at] ?? 0] ?? 0;
  return values;
}

function areFinite(values: Float32Array): boolean {
  // A sum of magnitudes in double precision is finite exactly when each of these is.
  let sum = 0;
  for (let at = 0; at < values.length; at++) sum += Math.abs(values[at] ?? 0);
  return Number.isFinite(sum);
}

function fromFloats(chunk: Buffer): Float32Array {
  return new Float32Array(chunk.buffer, chunk.byteOffset, chunk.length / 4);
}
