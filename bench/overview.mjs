/** The chart of the README: Wavepool beside the fastest peer of each kind, as a multiple of that peer. */
import { median, ratios } from './rounds.mjs';
import { audioSpeed } from './tables.mjs';

const PARTS = [
  ['moonshine-clips', 'Moonshine tiny, clips of 3–12 s'],
  ['moonshine-hour', 'Moonshine tiny, one long file'],
  ['whisper-clips', 'Whisper tiny.en, clips of 3–12 s'],
  ['whisper-hour', 'Whisper tiny.en, one long file'],
  ['vad', 'Silero VAD, one thread'],
];

function group(label, [ours, ...theirs]) {
  const against = (peer) => median(ratios(ours, peer));
  const fastest = theirs.toSorted((a, b) => against(a) - against(b))[0];
  if (fastest === undefined) return [];
  const value = against(fastest);
  return [
    {
      label,
      bars: [
        {
          ...{ label: 'Wavepool', value, ours: true },
          shown: `${value.toFixed(2)} × (${audioSpeed(ours).toFixed(0)} s/s)`,
        },
        { label: fastest.short, value: 1, shown: `1 × (${audioSpeed(fastest).toFixed(0)} s/s)` },
      ],
    },
  ];
}

/** @param results by part; undefined when none of the parts was measured */
export function overview(results) {
  const groups = PARTS.flatMap(([name, label]) => {
    const result = results.get(name);
    return result === undefined ? [] : group(label, result.data.contestants);
  });
  if (groups.length === 0) return undefined;
  const { machine } = results.values().next().value;
  return {
    title: 'Wavepool beside its fastest peer',
    subtitle: `Multiples of the peer’s speed, seconds of audio per second; ${machine.cores} × ${machine.cpu}`,
    groups,
  };
}
