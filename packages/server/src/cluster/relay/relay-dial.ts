import { dial, type ServerWire } from '../../http/ws.js';
import type { KnownNode } from '../membership.js';

/** How long a node may take to open a connection, in milliseconds. */
const DIAL_TIMEOUT_MS = 5_000;

export interface RelayDialing {
  /** How to reach a node; rejects or gives `undefined` if it is gone. */
  readonly locate: (incarnation: string) => Promise<KnownNode | undefined>;
  /** How to dial a node. */
  readonly dialing: (node: KnownNode) => Parameters<typeof dial>[1] & { readonly url: string };
}

/** Opens the connection on which this node relays to another one. Never rejects. */
export async function dialRelay(
  node: string,
  { locate, dialing }: RelayDialing,
  onOpen: (wire: ServerWire) => void,
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
        onFailed(new Error(`no connection: ${code ?? `HTTP ${status}`}`));
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
