import { expect, test } from 'vitest';
import { moonshineConverter } from '../../../src/models/convert/moonshine.ts';
import { moonshineTokens } from '../../../src/models/convert/moonshine-tokens.ts';
import { sileroVadConverter } from '../../../src/models/convert/silero-vad.ts';
import {
  graph,
  graphAttribute,
  message,
  model,
  node,
  packed,
  tensor,
  tensorAttribute,
} from '../files/onnx-bytes.ts';

const bytes = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);
const pieces = ['<unk>', '<s>', '</s>', ...bytes];
while (pieces.length < 32_000) pieces.push(`▁word${pieces.length}`);

function tokenizerSource(vocabulary: readonly string[]): Buffer {
  const encoded = Buffer.from(vocabulary.join('\n')).toString('base64');
  return Buffer.from(`throw new Error();\nconst llama_vocab_base64 = "${encoded}";\n`);
}

test('tokens are read from the tokenizer source without running it', () => {
  const tokens = moonshineTokens(tokenizerSource(pieces), 'tokenizer.js');
  expect(tokens.length).toBe(32_768);
  expect([tokens[0], tokens[3], tokens[258], tokens[31_999]]).toEqual([
    '<unk>',
    '<0x00>',
    '<0xFF>',
    '▁word31999',
  ]);
  expect([tokens[32_000], tokens[32_767]]).toEqual(['<<ST_0>>', '<<ST_767>>']);
});

for (const [what, source] of [
  ['without a vocabulary', Buffer.from('export const nothing = 1;')],
  ['with a token too few', tokenizerSource(pieces.slice(0, -1))],
  ['with bytes in another place', tokenizerSource([...pieces.slice(1), 'last'])],
] as const) {
  test(`a tokenizer source ${what} is refused`, () => {
    expect(() => moonshineTokens(source, 'tokenizer.js')).toThrow(
      expect.objectContaining({ code: 'MODEL_FILE_INVALID' }),
    );
  });
}

const input = (files: Readonly<Record<string, Uint8Array>>) => ({
  id: 'test',
  license: 'MIT',
  source: 'test@1.0.0',
  read: (name: string) => Promise.resolve(files[name] ?? new Uint8Array()),
  locate: (name: string) => name,
});

const empty = model(graph([], []));

test('an encoder without the expected weights is refused by name', async () => {
  const files = {
    'encoder.onnx': empty,
    'decoder.onnx': empty,
    'tokenizer.js': tokenizerSource(pieces),
  };
  await expect(moonshineConverter.convert(input(files))).rejects.toMatchObject({
    code: 'MODEL_FILE_INVALID',
    message: expect.stringContaining('encoder.onnx: no weight conv1.weight_quantized'),
  });
});

/** A Silero graph whose only branch hangs on `sr == rate`. */
function sileroGraph(rate: number, branch: Uint8Array): Uint8Array {
  const rateConstant = tensor('', [], 7, [7, packed(rate)]);
  return model(
    graph(
      [
        node('Constant', 'rate', [], ['rate'], [tensorAttribute('value', rateConstant)]),
        node('Equal', 'test', ['sr', 'rate'], ['is_rate']),
        node('If', 'choice', ['is_rate'], ['out'], [graphAttribute('then_branch', branch)]),
      ],
      [],
    ),
  );
}

for (const [what, onnx, words] of [
  ['without branches', empty, 'no branch for 16000 Hz'],
  ['for another rate', sileroGraph(8_000, message()), 'no branch for 16000 Hz'],
  ['with an empty branch', sileroGraph(16_000, message()), 'no f32 constant stft'],
  [
    'with a weight of another shape',
    sileroGraph(
      16_000,
      graph(
        [
          node(
            'Constant',
            '',
            [],
            ['w'],
            [
              tensorAttribute(
                'value',
                tensor('stft.forward_basis_buffer', [1], 1, [9, new Uint8Array(4)]),
              ),
            ],
          ),
        ],
        [],
      ),
    ),
    'stft.forward_basis_buffer is [1] where [258,1,256] was expected',
  ],
] as const) {
  test(`a Silero graph ${what} is refused`, async () => {
    await expect(
      sileroVadConverter.convert(input({ 'silero-vad.onnx': onnx })),
    ).rejects.toMatchObject({
      code: 'MODEL_FILE_INVALID',
      message: expect.stringContaining(words),
    });
  });
}
