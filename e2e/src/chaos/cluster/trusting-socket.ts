import { Agent } from 'node:https';
import { createSecureContext } from 'node:tls';
import WebSocket from 'ws';

/**
 * The WebSocket of a client that trusts one certificate, and begins later connections with the secrets of earlier ones, as browsers do.
 *
 * @param certificate in PEM. @default that of `ws`
 */
export function trustingSocket(certificate: string | undefined): typeof WebSocket {
  if (certificate === undefined) return WebSocket;
  const agent = new Agent({ secureContext: createSecureContext({ ca: certificate }) });
  return class extends WebSocket {
    constructor(url: string | URL, protocols: string | string[]) {
      super(url, protocols, { agent });
    }
  } as typeof WebSocket;
}
