import { vi } from 'vitest';
import type { MemoryReplies } from '../../../packages/server/src/engine/logs/memory.js';
import type * as log from '../../../packages/server/src/replies/log.js';

/** The tests of kept replies once more, with an engine each of whose answers takes some time. */

vi.mock('../../../packages/server/src/replies/log.js', async (load) => {
  const { ReplyLog } = await load<typeof log>();
  const { memoryReplies } = await import('../../../packages/server/src/engine/logs/memory.js');
  const { createLateLogs } = await import('../kit/late-log.js');
  return {
    ReplyLog: class extends ReplyLog {
      constructor(options: log.ReplyLogOptions) {
        const engine: MemoryReplies = memoryReplies(Date.now);
        super({ ...options, engine: createLateLogs(engine), local: undefined });
      }
    },
  };
});

await import('./replies.test.js');
