import { vi } from 'vitest';
import type * as memory from '../../../packages/server/src/replies/memory-log.js';

/** The tests of kept replies once more, with a log each of whose answers takes some time, as that of an engine does. */

vi.mock('../../../packages/server/src/replies/memory-log.js', async (load) => {
  const { MemoryReplyLog } = await load<typeof memory>();
  const { createLateLog } = await import('../kit/late-log.js');
  return {
    MemoryReplyLog: class {
      constructor(...given: ConstructorParameters<typeof MemoryReplyLog>) {
        // biome-ignore lint/correctness/noConstructorReturn: the log is created by its constructor.
        return createLateLog(new MemoryReplyLog(...given));
      }
    },
  };
});

await import('./replies.test.js');
