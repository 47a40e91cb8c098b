/** What of the protocol package is measured that its public API does not show. Only this file knows where that lives. */

import type * as NodePlatform from '../../../packages/protocol/src/platform/node.js';

/** The compiled form of the sources, which is the one that `@parlance/protocol` is here. */
async function inside<Module>(path: string): Promise<Module> {
  return (await import(new URL(`../../../packages/protocol/dist/${path}`, import.meta.url).href)) as Module;
}

export const { platform } = await inside<typeof NodePlatform>('platform/node.js');
