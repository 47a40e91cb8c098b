/** The measured parts of the protocol package that are not public. Only this file knows where they live. */

import type * as NodePlatform from '../../../packages/protocol/src/platform/node.js';

/** Imports a module in compiled form. It shares no state with `@parlance/protocol`, which is bundled. */
async function inside<Module>(path: string): Promise<Module> {
  return (await import(new URL(`../../../packages/protocol/dist/${path}`, import.meta.url).href)) as Module;
}

export const { platform } = await inside<typeof NodePlatform>('platform/node.js');
