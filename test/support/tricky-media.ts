/** Files that make careless players open something else: playlists, scripts, descriptions, references in containers. */
import { readFile, writeFile } from 'node:fs/promises';
import { ffmpeg } from './speech.ts';

export interface Elsewhere {
  /** An audio file that nobody sent. */
  readonly file: string;
  /** A server that nobody asked for. */
  readonly port: number;
}

/** Contents by kind. Each is tried under many names, since some programs go by the extension. */
export function trickyTexts({ file, port }: Elsewhere): Record<string, string> {
  const url = `http://127.0.0.1:${port}/a.wav`;
  const name = file.slice(file.lastIndexOf('/') + 1);
  const hls = (target: string) =>
    `#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10.0,\n${target}\n#EXT-X-ENDLIST\n`;
  return {
    'hls of a file': hls(`file://${file}`),
    'hls of a path': hls(file),
    'hls of a name': hls(name),
    'hls of a URL': hls(url),
    'hls of a concat URL': hls(`concat:${file}|${url}`),
    'hls with a key elsewhere': hls(url).replace(
      '#EXTINF',
      `#EXT-X-KEY:METHOD=AES-128,URI="${url}"\n#EXTINF`,
    ),
    'concat script': `ffconcat version 1.0\nfile '${file}'\n`,
    'concat script of a name': `ffconcat version 1.0\nfile ${name}\n`,
    'concat script of a URL': `ffconcat version 1.0\nfile '${url}'\n`,
    sdp: `v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio ${port} RTP/AVP 0\n`,
    dash: `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT10S"><Period><AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1"><BaseURL>${url}</BaseURL><SegmentList><SegmentURL media="${url}"/></SegmentList></Representation></AdaptationSet></Period></MPD>`,
    asx: `<asx version="3.0"><entry><ref href="${url}"/></entry></asx>`,
    'windows media reference': `[Reference]\r\nRef1=${url}?MSWMExt=.asf\r\n`,
    pls: `[playlist]\nFile1=${file}\nFile2=${url}\nNumberOfEntries=2\nVersion=2\n`,
    m3u: `${file}\n${url}\n`,
    ram: `rtsp://127.0.0.1:${port}/a.rm\n`,
    smil: `<smil><body><audio src="${url}"/></body></smil>`,
    subtitles: `1\n00:00:00,000 --> 00:00:01,000\n<img src="${url}">\n`,
    'imf package': `<?xml version="1.0"?><CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016"><Path>${file}</Path></CompositionPlaylist>`,
    'ffmpeg metadata': `;FFMETADATA1\ntitle=${url}\n`,
    'avisynth script': `DirectShowSource("${file}")\n`,
    'filter description': `amovie=${file}\n`,
  };
}

const ANCESTORS = ['dref', 'dinf', 'minf', 'mdia', 'trak', 'moov'] as const;

/** A QuickTime movie whose sound lies, as it says, in another file: an alias with an absolute path. */
export async function writeReferenceMovie(target: string, elsewhere: string): Promise<void> {
  const plain = `${target}.plain.mov`;
  await ffmpeg('-f', 'lavfi', '-i', 'sine=d=2', '-c:a', 'pcm_s16le', '-f', 'mov', plain);
  const movie = await readFile(plain);
  const entry = movie.lastIndexOf('dref') + 12;
  const alias = aliasEntry(elsewhere);
  const old = movie.readUInt32BE(entry);
  const grown = Buffer.concat([movie.subarray(0, entry), alias, movie.subarray(entry + old)]);
  for (const box of ANCESTORS) {
    const at = movie.lastIndexOf(box, entry) - 4;
    grown.writeUInt32BE(movie.readUInt32BE(at) + alias.length - old, at);
  }
  await writeFile(target, grown);
}

/** An `alis` data reference: an alias record with nothing but a file name and an absolute path. */
function aliasEntry(path: string): Buffer {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const record = Buffer.alloc(150);
  record.writeUInt8(6, 10);
  record.write('volume', 11, 'latin1');
  record.writeUInt8(Math.min(63, name.length), 50);
  record.write(name.slice(0, 63), 51, 'latin1');
  // How many folders up and down it is from here: unknown.
  record.writeInt16BE(-1, 130);
  record.writeInt16BE(-1, 132);
  const tag = Buffer.alloc(4);
  tag.writeUInt16BE(2, 0);
  tag.writeUInt16BE(path.length, 2);
  const padding = Buffer.alloc(path.length % 2);
  const end = Buffer.from([0xff, 0xff, 0, 0]);
  const body = Buffer.concat([record, tag, Buffer.from(path, 'latin1'), padding, end]);
  const header = Buffer.alloc(12);
  header.writeUInt32BE(header.length + body.length, 0);
  header.write('alis', 4, 'latin1');
  return Buffer.concat([header, body]);
}
