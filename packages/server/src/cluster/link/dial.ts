import type { Transport } from '../../transport/transport.js';
import { dial } from '../../transport/websocket/ws.js';
import type { Dialing } from '../dialing.js';
import type { KnownNode } from '../membership.js';

/** How long a node may take to open a connection, in milliseconds. */
const DIAL_TIMEOUT_MS = 5_000;
/** Of HTTP: the path names the version of the link. */
const NOT_FOUND = 404;

export interface LinkDialing {
  /** How to reach a node; rejects or gives `undefined` if it is gone. */
  readonly locate: (incarnation: string) => Promise<KnownNode | undefined>;
  /** How to dial a node. */
  readonly dialing: (node: KnownNode) => Dialing;
}

/** Opens a connection to another node. Never rejects. */
export async function dialLink(
  node: string,
  { locate, dialing }: LinkDialing,
  onOpen: (wire: Transport) => void,
  onFailed: (why: unknown) => void,
): Promise<void> {
  try {
    const known = await locate(node);
    if (known === undefined) throw new Error('the node is gone');
    const { url, ...options } = dialing(known);
    const abandon = dial(
      url,
      options,
      (wire) => {
        clearTimeout(timer);
        onOpen(wire);
      },
      ({ status, code }) => {
        clearTimeout(timer);
        const why = status === NOT_FOUND ? 'the node has another version' : (code ?? `HTTP ${status}`);
        onFailed(new Error(`no connection: ${why}`));
      },
    );
    const timer = setTimeout(() => {
      abandon();
      onFailed(new Error(`no connection within ${DIAL_TIMEOUT_MS} ms`));
    }, DIAL_TIMEOUT_MS);
    timer.unref();
  } catch (error) {
    onFailed(error);
  }
}
