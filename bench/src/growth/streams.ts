import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { startChild } from '../../../scripts/child-process.js';
import { compare, type Row } from '../row.js';
import { UNLIMITED } from '../unlimited.js';
import type { StreamsCommands } from './server.js';

/** Server memory of streams that have begun and wait for their next part, in one session. */
export async function* heldStreams(counts: readonly number[]): AsyncGenerator<Row> {
  const server = startChild<StreamsCommands>(new URL('./server.ts', import.meta.url), [], ['--expose-gc']);
  const limits = { ...UNLIMITED, maxStreams: Math.max(...counts) };
  let fewest: { readonly name: string; readonly value: number } | undefined;
  try {
    const url = await server.call('url');
    for (const count of counts) {
      const session = await connect(url, { WebSocket, limits });
      const before = await server.call('memory');
      const streams = Array.from({ length: count }, () => session.stream('begin'));
      for (const stream of streams) await stream[Symbol.asyncIterator]().next();
      const value = ((await server.call('memory')) - before) / count / 1024;
      await session.close();
      fewest ??= { name: `${count} streams`, value };
      yield compare(`heap for each of ${count} open streams`, 'KB', 'lower', value, fewest);
    }
  } finally {
    server.stop();
  }
}
