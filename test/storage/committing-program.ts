/** A process that commits a result for each of some jobs, all at once, and tells which commits won. */
import process from 'node:process';
import { S3Settings } from '../../src/core/s3-settings.ts';
import { openStorage } from '../../src/storage/open-storage.ts';
import { transcriptOf } from '../support/transcript.ts';

const [settings = '', text = '', jobs = ''] = process.argv.slice(2);
const s3 = S3Settings.parse(JSON.parse(settings));
const { results } = await openStorage({ s3, resultsDir: '/nowhere' });

process.once('message', () => {
  const commits = Array.from({ length: Number(jobs) }, (_, n) =>
    results.commit(`job-${n}`, transcriptOf(`job-${n}`, text)),
  );
  void Promise.all(commits).then((ends) => {
    process.send?.(ends.map(({ committed }) => committed));
    process.disconnect();
  });
});
process.send?.('ready');
