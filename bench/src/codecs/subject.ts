/**
 * Everything that is measured: the public API, and the part of a session that chooses and applies codecs.
 * Only this file knows where that part lives.
 */

import type * as PlainFrames from '../../../packages/protocol/src/session/plain.js';
import type * as Varints from '../../../packages/protocol/src/tokenizer/varints.js';

export * from '@parlance/protocol';
export { createBodyCoder } from '@parlance/protocol/internal';

/** Imports a module in compiled form. It shares no state with `@parlance/protocol`, which is bundled. */
async function inside<Module>(path: string): Promise<Module> {
  return (await import(new URL(`../../../packages/protocol/dist/${path}`, import.meta.url).href)) as Module;
}

export const { decodeTextForm, encodeTextForm } = await inside<typeof PlainFrames>('session/plain.js');
export const { decodeTokenIds } = await inside<typeof Varints>('tokenizer/varints.js');
