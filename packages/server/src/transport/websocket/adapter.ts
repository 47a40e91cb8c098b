import { createNetAdapter } from './net-wire.js';
import {
  createLibraryAdapter,
  type WebSocketAdapter,
  type WebSocketAdapterOptions,
  type WireKind,
} from './ws.js';

/** The environment variable that selects a wire for servers without the option. */
const VARIABLE = 'PARLANCE_WIRE';

export const WIRE_KINDS: readonly WireKind[] = ['net', 'ws'];

export function createWebSocketAdapter(options: WebSocketAdapterOptions): WebSocketAdapter {
  const { wire = defaultWire() } = options;
  return wire === 'ws' ? createLibraryAdapter(options) : createNetAdapter(options);
}

/** Bun and Deno have a `ws` of their own beside sockets that are not quite those of Node. */
function defaultWire(): WireKind {
  if (process.versions['bun'] !== undefined || process.versions['deno'] !== undefined) return 'ws';
  return process.env[VARIABLE] === 'ws' ? 'ws' : 'net';
}
