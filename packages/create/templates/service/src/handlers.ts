import { setTimeout as pause } from 'node:timers/promises';
import { serve } from '@parlance/server/contract';
import { contract } from './contract.js';

export const onRequest = serve(contract, {
  count: (text) => ({ words: text.split(/\s+/).filter(Boolean).length }),

  // The signal aborts if the caller leaves its loop, and not if its connection is lost.
  async *repeat({ text, times }, { signal }) {
    for (let count = 1; count <= times; count++) {
      yield `${count}: ${text}`;
      await pause(100, undefined, { signal });
    }
  },
});
