/**
 * One sherpa-onnx process: loads Moonshine tiny, decodes the clips it is given one by one (it does not batch Moonshine)
 * and tells how long that took. IPC: {type:'start', model, threads} → 'ready'; {type:'run', clips} → {seconds, texts}.
 */
import sherpa from 'sherpa-onnx-node';

let recognizer;

function decode(file) {
  const { samples, sampleRate } = sherpa.readWave(file);
  const stream = recognizer.createStream();
  stream.acceptWaveform({ samples, sampleRate });
  recognizer.decode(stream);
  return recognizer.getResult(stream).text.trim();
}

process.on('message', (message) => {
  if (message.type === 'start') {
    const { model, threads } = message;
    recognizer = new sherpa.OfflineRecognizer({
      featConfig: { sampleRate: 16_000, featureDim: 80 },
      modelConfig: {
        moonshine: {
          encoder: `${model}/encoder_model.onnx`,
          mergedDecoder: `${model}/decoder_model_merged.onnx`,
        },
        tokens: `${model}/tokens.txt`,
        numThreads: threads,
        provider: 'cpu',
        debug: 0,
      },
    });
    process.send({ type: 'ready' });
  } else if (message.type === 'run') {
    const startedAt = performance.now();
    const texts = message.clips.map(decode);
    process.send({ type: 'done', seconds: (performance.now() - startedAt) / 1000, texts });
  } else {
    process.exit(0);
  }
});
