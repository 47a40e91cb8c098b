import { ProtocolError } from '@parlance/protocol';
import type { Feature } from '../features/feature.js';
import type { OwnHooks } from '../features/own-feature.js';
import type { Hook } from './hook.js';
import { HookedReader } from './hooked-reader.js';
import { hookRequests } from './run-hooks.js';

/**
 * Hooks around requests and messages, the first one outermost: for measuring, limits and checks that all have in common.
 * They do not run for what `onRequest` never gets, such as relayed messages.
 *
 * @typeParam Data of `session.data`.
 * @throws {ProtocolError} `invalid_option` unless it is a list of functions.
 */
export function hooks<Data = unknown>(list: readonly Hook<Data>[]): Feature {
  if (!Array.isArray(list) || !list.every((hook) => typeof hook === 'function'))
    throw new ProtocolError('invalid_option', 'hooks: a list of functions is expected');
  // The type of the data exists for the application alone.
  const all = [...list] as Hook[];
  return {
    name: 'hooks',
    after: ['metrics', 'tracing'],
    install: (): OwnHooks => ({
      endpoint: { readerOf: (messages, session) => new HookedReader(messages, session, all) },
      wrap: (next) => hookRequests(next, all),
    }),
  };
}
