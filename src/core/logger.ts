/** JSON lines on standard error. Whoever composes a process makes the logger; everything else is given one. */
import { destination, type Logger as PinoLogger, pino } from 'pino';
import type { LogLevel } from './config.ts';

export type Logger = Pick<PinoLogger, 'error' | 'warn' | 'info' | 'debug' | 'child'>;

export function createLogger(level: LogLevel, name: string): Logger {
  const options = { name, level, base: { pid: process.pid } };
  return pino(options, destination({ fd: 2, sync: true }));
}
