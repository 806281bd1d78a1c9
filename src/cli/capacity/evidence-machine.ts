import { arch, availableParallelism, platform, release, totalmem } from 'node:os';
import type { EvidenceMachine } from '../../core/evidence/evidence.ts';
import { cpuName } from './auto-slots.ts';

/** This machine, as evidence names it. */
export function evidenceMachine(): EvidenceMachine {
  return {
    cpu: cpuName(),
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    os: `${platform()} ${release()} ${arch()}`,
  };
}
