import { systemClock } from '@parlance/protocol/client';
import { connect } from './client.js';
import { clientHostOf } from './session/session.js';
import { Hubs } from './tabs/hub.js';
import { type Connect, opener } from './tabs/open.js';
import { portPipe } from './tabs/pipe.js';
import { holdLock, type Locks } from './tabs/presence.js';

/**
 * The script of the worker that hosts the sessions of all tabs of an origin, see `ClientOptions.shared`. Tabs connect
 * while it still waits for its lock, so it listens first.
 */
const { locks } = (globalThis as { navigator?: { locks?: Locks } }).navigator ?? {};

const open: Connect = async (url, options) => clientHostOf(await connect(url, options));

async function createHubs(): Promise<Hubs> {
  const lock = locks === undefined ? undefined : `parlance:host:${crypto.randomUUID()}`;
  if (locks !== undefined && lock !== undefined) await holdLock(locks, lock);
  return new Hubs({ open: opener(open), clock: systemClock, locks, lock });
}

const created = createHubs();

globalThis.addEventListener('connect', (event) => {
  const [port] = (event as MessageEvent).ports;
  if (port !== undefined) void created.then((hubs) => hubs.serve(portPipe(port)));
});
