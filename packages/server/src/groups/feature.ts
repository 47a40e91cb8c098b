import { type Feature, Port } from '../parts/part.js';
import { Groups } from './groups.js';

export const GROUPS = new Port<Groups>('groups');

/** Sessions of one server that are sent the same messages: `server.group(name)`. On by default. */
export const groups = (): Feature => ({
  name: 'groups',
  install(host) {
    const { maxMessageSize } = host.options.limits;
    const all = new Groups((sessionId) => host.find(sessionId), maxMessageSize);
    host.provide(GROUPS, all);
    return { ended: (session) => all.forget(session) };
  },
});
