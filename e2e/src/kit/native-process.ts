import { type ClientSession, connect } from '@parlance/client';
import { offer } from '../../../scripts/child-process.js';
import { failure } from './peers.js';

/** A client with the WebSocket of the runtime, in a process of its own. */

let session: ClientSession | undefined;

const commands = {
  /** The message of the error. */
  fail: async (url: string): Promise<string> => (await failure(connect(url))).message,
  async connect(url: string): Promise<void> {
    session = await connect(url, { reconnect: { minDelayMs: 5, maxDelayMs: 50 } });
  },
  ask: async (text: string): Promise<string | undefined> => (await session?.request(text))?.text,
};
export type NativeCommands = typeof commands;
offer(commands);
