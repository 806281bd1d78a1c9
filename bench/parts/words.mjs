/** What is recognized, not how fast: the shipped readings, with the very segments of `wavepool run` given to the peer. */
import { programResult } from '../program-result.mjs';
import { percent, table } from '../tables.mjs';

export const words = {
  name: 'words',
  title: 'Words of the shipped readings',
  share: 0.1,
  settings: () => ({}),
  estimate: () => 10,
  measure: () => programResult('accuracy.mjs'),
  document({ data: { readings, segments, wavepool, sherpa, between } }) {
    const rows = [
      ['`wavepool run`', percent(wavepool)],
      ['sherpa-onnx, given the same segments', percent(sherpa)],
      ['one compared with the other', percent(between)],
    ];
    return {
      lines: [
        `${readings} readings, ${segments} segments.`,
        '',
        ...table(['Texts', 'Word error rate'], rows),
      ],
      charts: {},
    };
  },
};
