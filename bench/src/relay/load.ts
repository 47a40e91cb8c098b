import { offer } from '../process/channel.js';
import { type Agent, openAgent } from './agent.js';
import type { RelayName } from './server.js';

/** A sender and a receiver, in a process of their own. */

const system = process.argv[2] as RelayName;
let pair: { readonly sender: Agent; readonly receiver: Agent; readonly ticks: NodeJS.Timeout } | undefined;
let received = 0;
let onReceived = () => {};

const commands = {
  async open({ port, size }: { readonly port: number; readonly size: number }): Promise<void> {
    const payload = Uint8Array.from({ length: size }, (_, i) => 32 + ((i * 31 + (i >> 3)) % 95));
    const onMessage = (length: number) => {
      if (length !== size) throw new Error('what arrived is not what was sent');
      received++;
      onReceived();
    };
    const open = (name: 'sender' | 'receiver') => openAgent(system, { port, name, payload, onMessage });
    const [receiver, sender] = [await open('receiver'), await open('sender')];
    const ticks = setInterval(() => {
      sender.tick();
      receiver.tick();
    }, 50);
    pair = { sender, receiver, ticks };
  },

  /** Keeps `depth` messages under way. @returns messages that arrived, and milliseconds. */
  async flood({ depth, windowMs }: { readonly depth: number; readonly windowMs: number }) {
    const sender = pair?.sender as Agent;
    const from = received;
    const start = performance.now();
    let isRunning = true;
    let toSend = 0;
    const refill = () => {
      const count = toSend;
      toSend = 0;
      if (count > 0) sender.send(count);
    };
    // Answers a batch of arrivals with a batch of messages, behind all that came with one read.
    onReceived = () => {
      if (!isRunning) return;
      if (toSend++ === 0) queueMicrotask(refill);
    };
    sender.send(depth);
    await new Promise((resolve) => setTimeout(resolve, windowMs));
    const result = { messages: received - from, ms: performance.now() - start };
    isRunning = false;
    // What is under way arrives before the next window begins.
    for (let last = -1; last !== received; ) {
      last = received;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return result;
  },

  /** One message at a time. @returns the median of the milliseconds from agent to agent. */
  async latency({ count }: { readonly count: number }): Promise<number> {
    const sender = pair?.sender as Agent;
    const taken: number[] = [];
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      await new Promise<void>((resolve) => {
        onReceived = resolve;
        sender.send(1);
      });
      taken.push(performance.now() - start);
    }
    onReceived = () => {};
    return taken.sort((a, b) => a - b)[count >> 1] ?? Number.NaN;
  },

  async close(): Promise<void> {
    clearInterval(pair?.ticks);
    pair?.sender.close();
    pair?.receiver.close();
    pair = undefined;
    await new Promise((resolve) => setTimeout(resolve, 50));
  },
};
export type RelayLoadCommands = typeof commands;

offer(commands);
