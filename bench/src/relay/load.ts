import { offer } from '../../../scripts/child-process.js';
import { type Agent, openAgent } from './agent.js';
import { type RelayName, receiverName, senderName } from './relays.js';

/** Pairs of a sender and a receiver, in a process of their own. */

const system = process.argv[2] as RelayName;

interface Pair {
  readonly sender: Agent;
  readonly receiver: Agent;
  /** Called after each message or batch. */
  onReceived: () => void;
}

let pairs: Pair[] = [];
let ticks: NodeJS.Timeout | undefined;
let received = 0;

export interface PairsOptions {
  readonly port: number;
  /** Where receivers connect. @default `port` */
  readonly receiverPort?: number;
  /** Before names in tokens. @default nothing */
  readonly prefix?: string;
  readonly size: number;
  readonly pairs: number;
}

async function openPair(
  number: number,
  { port, receiverPort = port, prefix }: PairsOptions,
  payload: Uint8Array,
): Promise<Pair> {
  let pair: Pair | undefined;
  const onMessage = (length: number) => {
    if (length !== payload.length) throw new Error('the message differs from what was sent');
    received++;
    pair?.onReceived();
  };
  const [sender, receiver] = [senderName(number), receiverName(number)];
  const open = (name: string, to: string, at: number) =>
    openAgent(system, { port: at, prefix, name, to, payload, onMessage });
  // The receiver connects before anything is sent to it.
  const opened = {
    receiver: await open(receiver, sender, receiverPort),
    sender: await open(sender, receiver, port),
  };
  pair = { ...opened, onReceived: () => {} };
  return pair;
}

const commands = {
  async open(options: PairsOptions): Promise<void> {
    const { size, pairs: count } = options;
    const payload = Uint8Array.from({ length: size }, (_, i) => 32 + ((i * 31 + (i >> 3)) % 95));
    pairs = await Promise.all(Array.from({ length: count }, (_, i) => openPair(i, options, payload)));
    ticks = setInterval(() => {
      for (const { sender, receiver } of pairs) {
        sender.tick();
        receiver.tick();
      }
    }, 50);
  },

  /** Keeps `depth` messages of each pair in flight. @returns messages that arrived, and milliseconds. */
  async flood({ depth, windowMs }: { readonly depth: number; readonly windowMs: number }) {
    const from = received;
    const start = performance.now();
    let isRunning = true;
    for (const pair of pairs) {
      const { sender } = pair;
      let toSend = 0;
      const refill = () => {
        const count = toSend;
        toSend = 0;
        if (count > 0) sender.send(count);
      };
      // Answers a batch of arrivals with a batch of messages, after everything from one read.
      pair.onReceived = () => {
        if (isRunning && toSend++ === 0) queueMicrotask(refill);
      };
      sender.send(depth);
    }
    await new Promise((resolve) => setTimeout(resolve, windowMs));
    const result = { messages: received - from, ms: performance.now() - start };
    isRunning = false;
    // All messages in flight arrive before the next window begins.
    for (let last = -1; last !== received; ) {
      last = received;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return result;
  },

  /** One message of one pair at a time. @returns the median of the milliseconds from agent to agent. */
  async latency({ count }: { readonly count: number }): Promise<number> {
    const pair = pairs[0] as Pair;
    const taken: number[] = [];
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      await new Promise<void>((resolve) => {
        pair.onReceived = resolve;
        pair.sender.send(1);
      });
      taken.push(performance.now() - start);
    }
    pair.onReceived = () => {};
    return taken.sort((a, b) => a - b)[count >> 1] ?? Number.NaN;
  },

  close(): void {
    clearInterval(ticks);
    for (const { sender, receiver } of pairs) {
      sender.close();
      receiver.close();
    }
    pairs = [];
  },
};
export type RelayLoadCommands = typeof commands;

offer(commands);
