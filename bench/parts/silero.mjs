/** Silero VAD's ONNX file, of the release that our weights are made from, byte for byte. */
import path from 'node:path';
import { preparePython, prepareWheel } from '../python.mjs';

export function prepareSilero(cache) {
  const file = 'silero_vad/data/silero_vad.onnx';
  const wheel = 'silero_vad-6.2.3-py3-none-any.whl';
  const folder = prepareWheel(cache, preparePython(cache), 'silero-vad==6.2.3', wheel, [file]);
  return path.join(folder, file);
}
