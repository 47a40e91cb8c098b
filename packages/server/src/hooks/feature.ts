import { ProtocolError } from '@parlance/protocol';
import type { Feature } from '../parts/part.js';
import type { Hook } from './hook.js';
import { hookRequests } from './run-hooks.js';

/**
 * Hooks around requests and messages, the first one outermost.
 *
 * @throws {ProtocolError} `invalid_option` unless it is a list of functions.
 */
export function hooks(list: readonly Hook[]): Feature {
  if (!list.every((hook) => typeof hook === 'function'))
    throw new ProtocolError('invalid_option', 'use: a list of functions is expected');
  const all = [...list];
  return {
    name: 'hooks',
    after: ['metrics', 'tracing', 'replies'],
    install: () => ({ endpoint: { hooks: all }, wrap: (next) => hookRequests(next, all) }),
  };
}
