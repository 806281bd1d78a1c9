/** Finds the programs that a build, a run or the tests need, and installs what is missing with the system's package manager. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import process from 'node:process';

/** What we need, how to see that it is there, and which package brings it. */
const NEEDS = [
  { name: 'C++ compiler', commands: ['c++', 'g++', 'clang++'], apt: 'g++', brew: undefined },
  { name: 'cmake', commands: ['cmake'], apt: 'cmake', brew: 'cmake' },
  { name: 'make', commands: ['make', 'ninja'], apt: 'make', brew: 'make' },
  {
    name: 'nlohmann JSON',
    files: [
      '/usr/include/nlohmann/json.hpp',
      '/usr/local/include/nlohmann/json.hpp',
      '/opt/homebrew/include/nlohmann/json.hpp',
    ],
    apt: 'nlohmann-json3-dev',
    brew: 'nlohmann-json',
  },
  {
    name: 'Redis or Valkey',
    commands: ['redis-server', 'valkey-server'],
    apt: 'redis-server',
    brew: 'redis',
  },
  { name: 'ffmpeg', commands: ['ffmpeg'], apt: 'ffmpeg', brew: 'ffmpeg' },
];
const TEST_NEEDS = [
  {
    name: 'GoogleTest',
    files: [
      '/usr/include/gtest/gtest.h',
      '/usr/local/include/gtest/gtest.h',
      '/opt/homebrew/include/gtest/gtest.h',
    ],
    apt: 'libgtest-dev',
    brew: 'googletest',
  },
  // For an S3 server, in an environment of its own.
  { name: 'Python', commands: ['python3'], apt: 'python3-venv', brew: 'python' },
  // Tests of the pages skip themselves without it, so that other systems need not have it.
  { name: 'Chromium', commands: ['chromium'], apt: 'chromium', isOptional: true },
];

function onPath(command) {
  return (process.env.PATH ?? '').split(':').some((folder) => existsSync(`${folder}/${command}`));
}

function isPresent(need) {
  return need.commands?.some(onPath) || need.files?.some((file) => existsSync(file)) || false;
}

function run(command, args, options = {}) {
  const shown = [command, ...args].join(' ');
  console.log(`$ ${shown}`);
  const { status, error } = spawnSync(command, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    ...options,
  });
  if (error || status !== 0)
    throw new Error(`failed: ${shown}${error ? ` (${error.message})` : ''}`);
}

function installWithApt(packages) {
  const isRoot = process.getuid?.() === 0;
  const prefix = isRoot ? [] : ['sudo'];
  if (!isRoot && !onPath('sudo')) {
    throw new Error(`as root, run: apt-get install ${packages.join(' ')}`);
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args) => {
    const [command, ...rest] = [...prefix, 'apt-get', ...args];
    run(command, rest, { env });
  };
  apt('update', '-qq');
  apt('install', '-y', '-qq', '--no-install-recommends', ...packages);
}

/** Installs what is missing. Shows first what it will install. Throws with the command to run where it cannot. */
export function ensureSystemPackages({ forTests }) {
  const needs = forTests ? [...NEEDS, ...TEST_NEEDS] : NEEDS;
  const hasApt = onPath('apt-get');
  const isNeeded = (need) => hasApt || need.isOptional !== true;
  const missing = needs.filter((need) => isNeeded(need) && !isPresent(need));
  if (missing.length === 0) return;
  console.log(`Missing on this machine: ${missing.map((need) => need.name).join(', ')}`);
  if (hasApt) {
    const packages = missing.map((need) => need.apt);
    console.log(`Installing the Debian/Ubuntu packages: ${packages.join(' ')}`);
    installWithApt(packages);
  } else if (onPath('brew')) {
    if (missing.some((need) => need.brew === undefined))
      throw new Error('run: xcode-select --install');
    const packages = missing.map((need) => need.brew);
    console.log(`Installing with Homebrew: ${packages.join(' ')}`);
    run('brew', ['install', ...packages]);
  } else {
    throw new Error(
      `install these with your package manager: ${missing.map((need) => need.name).join(', ')}`,
    );
  }
  const left = missing.filter((need) => !isPresent(need));
  if (left.length > 0)
    throw new Error(`still missing: ${left.map((need) => need.name).join(', ')}`);
}
