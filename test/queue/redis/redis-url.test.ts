import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { describeAddress } from '../../../src/queue/redis/connection.ts';
import { parseRedisUrl } from '../../../src/queue/redis/redis-url.ts';

test('an address names one server, Sentinels with their master, or nodes of a Cluster', () => {
  for (const url of ['redis://localhost', 'rediss://me:secret@queue:6380/2', 'unix:///run/r.sock'])
    expect(parseRedisUrl(url)).toEqual({ kind: 'server', url });
  expect(parseRedisUrl('redis+sentinel://a,b:26380,[::1]:26381/main')).toEqual({
    kind: 'sentinel',
    tls: false,
    hosts: [
      { host: 'a', port: 26_379 },
      { host: 'b', port: 26_380 },
      { host: '::1', port: 26_381 },
    ],
    master: 'main',
    db: 0,
  });
  expect(
    parseRedisUrl(
      'rediss+sentinel://me:s%40cret@a/main?db=3&sentinel_username=watch&sentinel_password=w%26d',
    ),
  ).toEqual({
    kind: 'sentinel',
    tls: true,
    hosts: [{ host: 'a', port: 26_379 }],
    master: 'main',
    db: 3,
    username: 'me',
    password: 's@cret',
    sentinelUsername: 'watch',
    sentinelPassword: 'w&d',
  });
  expect(parseRedisUrl('redis+cluster://:secret@a:7000,b')).toEqual({
    kind: 'cluster',
    tls: false,
    hosts: [
      { host: 'a', port: 7_000 },
      { host: 'b', port: 6_379 },
    ],
    password: 'secret',
  });
});

test.each([
  'localhost:6379',
  'http://localhost',
  'redis+sentinel://a,b',
  'redis+sentinel://a,b/main/2',
  'redis+sentinel://a/main?database=2',
  'redis+sentinel://a/main?db=two',
  'redis+sentinel://a:99999/main',
  'redis+sentinel://:%zz@a/main',
  'redis+cluster://',
  'redis+cluster://a:7000,',
  'redis+cluster://a/2',
])('%s is refused', (url) => {
  expect(() => parseRedisUrl(url)).toThrow(
    expect.objectContaining({ name: WavepoolError.name, code: 'INVALID_REQUEST' }),
  );
});

test('no password is told', () => {
  const told = (url: string) => describeAddress({ kind: 'url', url });
  expect(told('redis://me:secret@queue:6380/2')).toBe('redis://queue:6380/2');
  expect(told('redis+sentinel://:secret@a,[::1]/main?sentinel_password=secret')).toBe(
    'redis+sentinel://a:26379,[::1]:26379/main',
  );
  expect(told('rediss+cluster://:secret@a:1,b:2')).toBe('rediss+cluster://a:1,b:2');
  expect(told('redis+sentinel://:secret@a')).not.toContain('secret');
  expect(() => parseRedisUrl('redis+sentinel://:secret@a')).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('secret') }),
  );
});
