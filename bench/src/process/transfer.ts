import { offer } from '../../../scripts/child-process.js';
import type { End, TransferSystem, TransferSystemName } from '../avp/ends.js';
import { type PeakMemory, settleHeap, watchMemory } from '../avp/memory.js';

/**
 * One end of tensor transfers, in a process of its own whose memory is measured. Every process loads the same
 * packages, whichever system it measures, and settles first: how often V8 collects garbage while buffers pass
 * through depends on what else the process holds, and on its history.
 */

import '@parlance/client';
import '@parlance/server';
import { cpuTime } from './cpu.js';

const FILES: Readonly<Record<TransferSystemName, string>> = {
  session: '../avp/session-end.ts',
  agent: '../relay/agent-end.ts',
  ws: '../avp/ws-end.ts',
};
const { system } = (await import(FILES[process.argv[2] as TransferSystemName])) as {
  readonly system: TransferSystem;
};
await settleHeap();
let end: End | undefined;
let memory: PeakMemory | undefined;

/** A reading of one end; a measurement takes two. */
export interface TransferMark {
  /** Of all threads, in user and system mode. */
  readonly cpuMs: number;
  /** Peak since the last `watch`, beyond what the process held at the first one. */
  readonly peakBytes: number;
}

const commands = {
  /** @returns the port. */
  async serve(): Promise<number> {
    const { port } = await system.serve((accepted) => {
      // Tensors travel on the first connection; the others are for measuring beside it.
      end ??= accepted;
    });
    return port;
  },

  async connect({ port, role }: { port: number; role?: 'sender' | 'receiver' }): Promise<void> {
    end = await system.connect(port, role);
  },

  watch(): void {
    // Forced collection slows down what follows, so it happens once, before all measurements.
    memory ??= watchMemory();
    memory.forget();
  },

  mark(): TransferMark {
    return {
      cpuMs: cpuTime() / 1000,
      peakBytes: memory === undefined ? 0 : memory.peak() - memory.base,
    };
  },

  /** @returns milliseconds until the other end has verified everything. */
  async send(bytes: number): Promise<number> {
    const start = performance.now();
    await end?.send(bytes);
    return performance.now() - start;
  },

  /** Small messages, one after the other. @returns milliseconds that each took. */
  async pings({ forMs, pauseMs }: { forMs: number; pauseMs: number }): Promise<number[]> {
    const taken: number[] = [];
    for (const until = performance.now() + forMs; performance.now() < until; ) {
      const start = performance.now();
      await end?.ping();
      taken.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    return taken;
  },
};
export type TransferCommands = typeof commands;

offer(commands);
