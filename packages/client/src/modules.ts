import type { Negotiated } from '@parlance/protocol';
import { type ChannelModule, Extension, type Loadable, loadable, parts } from '@parlance/protocol/client';
import type { ModuleCode } from './session/module.js';
import type { ClientOptions } from './session/options.js';

const hello = loadable('HELLO', () => import('./session/hello.js'));
const answers = loadable('answers', () => import('./session/answers.js'));
export const http = loadable('HTTP', () => import('./connection/transports.js'));

/**
 * Modules that not every client needs, by the option that asks for each, the outermost first. They are loaded before
 * HELLO. Without its option, a module has no code in a page, no state, and nothing to run.
 */
const MODULES: { readonly [Option in keyof ClientOptions]: Loadable<ModuleCode> } = {
  modules: answers,
  transports: http,
  shared: loadable('shared sessions', () => import('./tabs/connect.js')),
  store: loadable('reloads', () => import('./reconnect/rebuild.js')),
  agent: hello,
  agentId: hello,
  avp: hello,
  security: hello,
  subprotocol: hello,
  onFetch: answers,
  batch: answers,
};

/** The modules that the options ask for. */
export function modulesOf(options: ClientOptions): readonly Loadable<ModuleCode>[] {
  const asked = Object.entries(MODULES).filter(([name]) => {
    const value = options[name as keyof ClientOptions];
    return value !== undefined && value !== false;
  });
  return [...new Set(asked.map(([, code]) => code))];
}

/**
 * The same for what the ends have agreed on, which is loaded after ACCEPT: the channel of a durable session, or of one without
 * a link. The code for requests, replies, agents and tensors is loaded with the first call or frame that needs it.
 */
export function channelOf({ extensions }: Negotiated): Promise<ChannelModule> {
  return (extensions[Extension.DURABLE] === undefined ? parts.plain : parts.durable).load();
}
