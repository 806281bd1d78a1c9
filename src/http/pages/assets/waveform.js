/** Reads and draws the outline of a recording. */

const PEAKS = 600;
/** A waveform needs no more, and the decoded recording is small. */
const SAMPLE_RATE = 8_000;

/** The loudest sample of each stretch, the loudest of all being 1. @throws when the browser cannot decode the file */
export async function readPeaks(file) {
  const context = new OfflineAudioContext(1, 1, SAMPLE_RATE);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const samples = audio.getChannelData(0);
  const stretch = Math.max(1, samples.length / PEAKS);
  const peaks = [];
  for (let from = 0; from < samples.length; from += stretch) {
    let peak = 0;
    const to = Math.min(samples.length, from + stretch);
    for (let at = Math.floor(from); at < to; at += 1) peak = Math.max(peak, Math.abs(samples[at]));
    peaks.push(peak);
    // Long recordings must not freeze the page.
    if (peaks.length % 100 === 0) await new Promise((resolve) => setTimeout(resolve));
  }
  const loudest = Math.max(...peaks, 1e-4);
  return peaks.map((peak) => peak / loudest);
}

/** @param played the part before the playing position, 0 to 1 */
export function drawWave(canvas, peaks, played) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = devicePixelRatio;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const style = getComputedStyle(canvas);
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  const bars = Math.max(1, Math.floor(width / 4));
  for (let bar = 0; bar < bars; bar += 1) {
    const from = Math.floor((bar / bars) * peaks.length);
    const to = Math.max(from + 1, Math.floor(((bar + 1) / bars) * peaks.length));
    const peak = Math.max(...peaks.slice(from, to));
    const tall = Math.max(2, peak * (height - 16));
    context.fillStyle = style.getPropertyValue(bar / bars < played ? '--accent' : '--line-strong');
    context.beginPath();
    context.roundRect(bar * 4 + 1, (height - tall) / 2, 2.5, tall, 1.25);
    context.fill();
  }
}
