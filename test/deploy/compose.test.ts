import { readFileSync, type Stats, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

/** What a value of the file can be. */
type Yaml = string | number | boolean | null | Yaml[] | { [key: string]: Yaml };

function repositoryFile(name: string): string {
  return readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
}

function member(value: Yaml | undefined, ...path: readonly string[]): Yaml | undefined {
  let place = value;
  for (const key of path) {
    place =
      typeof place === 'object' && place !== null && !Array.isArray(place) ? place[key] : undefined;
  }
  return place;
}

function words(value: Yaml | undefined): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

const compose: Yaml = parse(repositoryFile('docker-compose.yml'), { merge: true });
const service = (name: string, ...path: readonly string[]): Yaml | undefined =>
  member(compose, 'services', name, ...path);
const OURS = ['keys', 'server', 'worker'];
const LASTING = ['redis', 'server', 'worker'];

describe('docker-compose.yml', () => {
  test('starts a Redis that keeps every job and evicts none', () => {
    const command = words(service('redis', 'command')).join(' ');
    expect(command).toContain('--appendonly yes');
    expect(command).toContain('--appendfsync always');
    expect(command).toContain('--no-appendfsync-on-rewrite no');
    expect(command).toContain('--maxmemory-policy noeviction');
    expect(words(service('redis', 'volumes'))).toContain('redis:/data');
    expect(member(compose, 'volumes')).toHaveProperty('redis');
  });

  test('lets nobody outside reach Redis', () => {
    expect(service('redis', 'ports')).toBeUndefined();
    const networks = words(service('redis', 'networks'));
    expect(networks).toEqual(['inside']);
    expect(member(compose, 'networks', 'inside', 'internal')).toBe(true);
    for (const name of OURS) {
      expect(words(service(name, 'networks'))).toContain('inside');
      expect(service(name, 'environment', 'WAVEPOOL_REDIS')).toBe('redis://redis:6379');
    }
  });

  test('shares uploads, results and models between the server and every worker', () => {
    for (const name of ['server', 'worker']) {
      const volumes = words(service(name, 'volumes'));
      expect(volumes).toEqual(expect.arrayContaining(['data:/data', 'models:/models']));
      expect(volumes.some((volume) => volume.endsWith(':/audio:ro'))).toBe(true);
    }
    for (const volume of ['data', 'models', 'scratch']) {
      expect(member(compose, 'volumes')).toHaveProperty(volume);
    }
  });

  test('looks after what runs, and starts it again', () => {
    for (const name of LASTING) {
      expect(words(service(name, 'healthcheck', 'test'))[0]).toMatch(/^CMD/);
      expect(service(name, 'restart')).toBe('unless-stopped');
      if (name !== 'redis') {
        expect(service(name, 'depends_on', 'redis', 'condition')).toBe('service_healthy');
      }
    }
    expect(service('server', 'depends_on', 'keys', 'condition')).toBe(
      'service_completed_successfully',
    );
  });

  test('can have any number of workers', () => {
    expect(service('worker', 'deploy', 'replicas')).toMatch(/WAVEPOOL_WORKERS:-1/);
    expect(service('worker', 'container_name')).toBeUndefined();
    expect(service('worker', 'ports')).toBeUndefined();
    // Longer than the ten minutes in which the command lets running jobs finish.
    expect(service('worker', 'stop_grace_period')).toBe('10m30s');
  });

  test('gives nothing more rights than it needs, and takes the key from a secret', () => {
    for (const name of [...OURS, 'redis']) {
      expect(service(name, 'cap_drop')).toEqual(['ALL']);
      expect(service(name, 'read_only')).toBe(true);
      expect(service(name, 'security_opt')).toEqual(['no-new-privileges:true']);
      expect(service(name, 'user')).toBe(name === 'redis' ? 'redis' : undefined);
      expect(service(name, 'privileged')).toBeUndefined();
    }
    expect(words(service('keys', 'secrets'))).toEqual(['wavepool_api_key']);
    expect(words(service('keys', 'command'))).toContain('/run/secrets/wavepool_api_key');
    expect(member(compose, 'secrets', 'wavepool_api_key')).toHaveProperty('file');
    expect(words(service('server', 'ports'))).toEqual([expect.stringContaining('127.0.0.1:8080')]);
  });
});

/** Instructions of a Dockerfile, with their continuation lines, by stage. */
function stagesOf(dockerfile: string): Map<string, string[]> {
  const stages = new Map<string, string[]>();
  let instructions: string[] = [];
  const logical = dockerfile.replace(/^#.*\n/gm, '').replace(/\\\n\s*/g, ' ');
  for (const line of logical.split('\n').filter((text) => text.trim() !== '')) {
    const stage = /^FROM \S+ AS (\w+)$/.exec(line)?.[1];
    if (stage !== undefined) {
      instructions = [];
      stages.set(stage, instructions);
    }
    instructions.push(line);
  }
  return stages;
}

describe('Dockerfile', () => {
  const stages = stagesOf(repositoryFile('Dockerfile'));
  const run = stages.get('run') ?? [];

  test('compiles in one stage and runs in another that has no compiler', () => {
    expect([...stages.keys()]).toEqual(['build', 'run']);
    expect(stages.get('build')?.join('\n')).toMatch(/g\+\+ cmake make nlohmann-json3-dev/);
    expect(run.join('\n')).not.toMatch(/g\+\+|cmake|make\b|-dev\b|npm /);
    expect(run.join('\n')).toMatch(/ffmpeg/);
  });

  test('runs as nobody special, under an init that passes signals on', () => {
    const user = run.indexOf('USER node');
    expect(user).toBeGreaterThan(0);
    expect(run.slice(user).some((line) => line.startsWith('RUN'))).toBe(false);
    expect(run).toContain('ENTRYPOINT ["tini", "--", "wavepool"]');
    expect(run.some((line) => line.startsWith('HEALTHCHECK '))).toBe(true);
    expect(run).toContain('VOLUME ["/data", "/models", "/scratch"]');
  });

  test('copies what the repository has and the image may see', () => {
    const ignored = repositoryFile('.dockerignore').split('\n');
    const copied = [...stages.values()]
      .flat()
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(copied).toEqual(expect.arrayContaining(['package-lock.json', 'native', 'src']));
    for (const name of copied) {
      expect(ignored).not.toContain(name);
      expect(() => statOf(name)).not.toThrow();
    }
    expect(ignored).toEqual(
      expect.arrayContaining(['.git', '**/node_modules', 'secrets', '.env*']),
    );
  });
});

function statOf(name: string): Stats {
  return statSync(new URL(`../../${name}`, import.meta.url));
}
