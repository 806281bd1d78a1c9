/** One model as `wavepool models list` and `show` tell of it. */
import type { TunedLayout } from '../../core/evidence/tuning.ts';
import { catalogueEntry, downloadBytes, findEntry } from '../../models/catalogue/catalogue.ts';
import type { Origin } from '../../models/catalogue/catalogue-entry.ts';
import {
  type Source,
  sourceBytes,
  sourceIntegrity,
  sourceLabel,
} from '../../models/catalogue/source.ts';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import type { ListedModel } from '../../models/installed/installed-models.ts';
import { TuningStore } from '../../models/tuning/tuning-store.ts';
import { describeTuning } from '../capacity/auto-capacity.ts';
import { formatBytes, textTable } from '../terminal/text.ts';

export interface ModelRow {
  readonly id: string;
  readonly family: string;
  readonly task: string;
  readonly languages: readonly string[];
  readonly license: string;
  /** Of the installed weights; of the download for a model that is not installed. */
  readonly bytes: number;
  readonly state: ListedModel['state'];
  /** Where it came from, or would come from first. */
  readonly source: string;
  readonly description: string;
  readonly path: string | null;
  readonly installedAt: string | null;
  /** Of the installed weights. */
  readonly sha256: string | null;
  readonly quantized: { readonly type: string; readonly base: string } | null;
  /** In the order in which they are tried; empty for an imported model. */
  readonly sources: readonly SourceRow[];
  readonly validated: readonly ValidatedRow[];
  /** What `--slots auto --batch auto` measured and chose, by machine. */
  readonly tuned: readonly TunedRow[];
}

export interface TunedRow {
  readonly cpu: string;
  readonly cores: number;
  readonly build: string;
  /** Whether it is about the installed weights. */
  readonly current: boolean;
  readonly measuredAt: string;
  readonly chosen: TunedLayout;
  /** For people: the layout, its speed, and among how many it was found. */
  readonly summary: string;
}

export interface SourceRow {
  readonly source: string;
  readonly bytes: number | null;
  /** Of what is downloaded, or nothing where it is made here. */
  readonly checksum: string;
  /** As whisper.cpp lists it. */
  readonly sha1?: string;
}

export interface ValidatedRow {
  readonly mode: string;
  /** The largest count of slots up to which every one has passed. */
  readonly slots: number;
  readonly build: string;
  /** Whether it is about the installed weights. */
  readonly current: boolean;
}

const MODES = ['batch', 'offline', 'streaming'] as const;

export async function describeModel(model: ListedModel, modelsDir: string): Promise<ModelRow> {
  const { entry, state, installed } = model;
  const known = findEntry(entry.id);
  const record = installed?.record;
  const { family, id, task, languages, license, description } = entry;
  return {
    id,
    family,
    task,
    languages,
    license,
    bytes: record?.weights.bytes ?? (known === undefined ? 0 : downloadBytes(known)),
    state,
    source: sourceOf(model),
    description,
    path: installed?.path ?? null,
    installedAt: record?.installedAt ?? null,
    sha256: record?.weights.sha256 ?? null,
    quantized: record?.quantized ?? null,
    sources: known?.origins.flatMap(describeOrigin) ?? [],
    validated: await validatedOf(id, record?.weights.sha256, modelsDir),
    tuned: await tunedOf(id, record?.weights.sha256, modelsDir),
  };
}

async function tunedOf(
  id: string,
  sha256: string | undefined,
  modelsDir: string,
): Promise<TunedRow[]> {
  const records = await new TuningStore(modelsDir).all(id);
  return records.map((record) => {
    const { cpu, cores, build, checkpointSha256 } = record.identity;
    const { measuredAt, chosen } = record;
    const current = checkpointSha256 === sha256;
    return { cpu, cores, build, current, measuredAt, chosen, summary: describeTuning(record) };
  });
}

function sourceOf({ entry, installed }: ListedModel): string {
  if (installed !== undefined) {
    const { imported, sources, quantized } = installed.record;
    const from = sources.map(({ package: name }) => (/^\w+:/.test(name) ? name : `npm:${name}`));
    const where = imported === undefined ? from.join(', ') : `imported from ${imported.from}`;
    return quantized === undefined ? where : `${quantized.base} (${where}), made here`;
  }
  const [first] = catalogueEntry(entry.id).origins;
  return first === undefined
    ? ''
    : describeOrigin(first)
        .map(({ source }) => source)
        .join(', ');
}

function describeOrigin(origin: Origin): SourceRow[] {
  if (origin.kind === 'files') return origin.sources.map(describeSource);
  return [{ source: `made here from ${origin.base}`, bytes: null, checksum: '' }];
}

function describeSource(source: Source): SourceRow {
  const sha1 = source.kind === 'huggingface' ? source.files[0]?.sha1 : undefined;
  return {
    source: sourceLabel(source),
    bytes: sourceBytes(source),
    checksum: sourceIntegrity(source),
    ...(sha1 === undefined ? {} : { sha1 }),
  };
}

async function validatedOf(
  id: string,
  sha256: string | undefined,
  modelsDir: string,
): Promise<ValidatedRow[]> {
  const store = new EvidenceStore({ modelsDir });
  const rows: ValidatedRow[] = [];
  for (const mode of MODES) {
    const { record } = await store.model(id, mode);
    if (record === undefined) continue;
    const { build, checkpointSha256 } = record.identity;
    const firstFailed = record.counts.findIndex(({ verdict }) => verdict !== 'PASS');
    const passed = firstFailed < 0 ? record.counts : record.counts.slice(0, firstFailed);
    const slots = passed.at(-1)?.slots ?? 0;
    rows.push({ mode, slots, build, current: checkpointSha256 === sha256 });
  }
  return rows;
}

export function modelTable(rows: readonly ModelRow[]): string {
  const head = ['id', 'task', 'languages', 'license', 'size', 'state', 'source', 'validated'];
  const body = rows.map((row) => [
    row.id,
    row.task,
    languagesOf(row),
    row.license,
    formatBytes(row.bytes),
    row.state,
    // Which revision it is, `show` tells.
    row.source.replaceAll(/@[0-9a-f]{40}(?=\/)/g, ''),
    row.validated
      .filter(({ current }) => current)
      .map(({ mode, slots }) => `${mode} ${slots}`)
      .join(', '),
  ]);
  return textTable([head, ...body]);
}

function languagesOf({ languages }: ModelRow): string {
  if (languages.length === 0) return 'any';
  return languages.map((language) => (language === 'mul' ? 'many' : language)).join(',');
}

export function modelDetails(row: ModelRow): string {
  const lines: (readonly [string, string])[] = [
    ['id', row.id],
    ['what', row.description],
    ['family', row.family],
    ['task', row.task === 'asr' ? 'transcribe' : row.task],
    ['languages', languagesOf(row)],
    ['license', row.license],
    ['state', row.state],
    ['size', formatBytes(row.bytes)],
    ['source', row.source],
  ];
  if (row.path !== null) lines.push(['path', row.path]);
  if (row.sha256 !== null) lines.push(['sha256', row.sha256]);
  if (row.installedAt !== null) lines.push(['installed', row.installedAt]);
  for (const [index, { source, bytes, checksum, sha1 }] of row.sources.entries()) {
    lines.push([`from ${index + 1}`, bytes === null ? source : `${source}, ${formatBytes(bytes)}`]);
    for (const each of checksum.split(' ').filter((part) => part !== '')) lines.push(['', each]);
    if (sha1 !== undefined) lines.push(['', `sha1:${sha1} (whisper.cpp's list)`]);
  }
  for (const { mode, slots, build, current } of row.validated) {
    const about = current ? 'these weights' : 'other weights, so it does not count';
    lines.push(['validated', `${mode}: ${slots} slots, build ${build}, ${about}`]);
  }
  for (const { cpu, cores, current, summary } of row.tuned) {
    const about = current ? '' : ', for other weights';
    lines.push(['tuned', `${summary}; ${cores} × ${cpu}${about}`]);
  }
  if (row.validated.length === 0) {
    lines.push(['validated', `nothing here; wavepool models validate ${row.id} --slots 4`]);
  }
  return textTable(lines);
}
