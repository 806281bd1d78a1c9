/** The test addon: the addon with the fake families and injectable faults (native/tests/support/faults.h). */
import { existsSync } from 'node:fs';
import { builtAddonPath, loadBinding, type TestBinding } from '../../src/engine/binding.ts';

export const TEST_ADDON = builtAddonPath('addon_test.node');

export const TEST_ADDON_BUILT = existsSync(TEST_ADDON);

if (!TEST_ADDON_BUILT) {
  process.stderr.write(
    `NOT TESTED: ${TEST_ADDON} is not built; run \`npm run build:native -- --tests\`\n`,
  );
}

/** The fault switches of this process, and what of the fakes exists in it. */
export function faults(): Pick<TestBinding, 'setFault' | 'clearFaults' | 'liveObjects'> {
  // Only addon_test.node is loaded here, and it exports them.
  return loadBinding(TEST_ADDON) as TestBinding;
}
