import { get } from 'node:http';
import { createWatchingProxy, type WatchedPair, type WatchingProxy } from './watching-proxy.js';

/** Of a WebSocket, or of a stream over HTTP. */
const OPENING = /^(?:GET|POST) \/session(?:\/stream)?[ ?]/m;

/** A TCP proxy that resets a connection as soon as a server has accepted the session on it, of which the client reads nothing. */
export interface ResettingProxy extends WatchingProxy {
  readonly url: string;
  /** Since the last {@link rearm}. */
  readonly openings: number;
  /**
   * Cuts every connection. The next one that opens a session is reset, and none after it. Resolves when clients of this process use
   * no connection any more that was cut.
   */
  rearm(): Promise<void>;
}

/**
 * @param ports where connections go until one is reset, and from then on.
 * @param isHeld the client does not even read that a WebSocket is open.
 */
export async function createResettingProxy(
  ports: readonly [number, number],
  isHeld = true,
): Promise<ResettingProxy> {
  let openings = 0;
  let resetting: WatchedPair | undefined;
  const proxy = await createWatchingProxy(
    () => ports[openings === 0 ? 0 : 1],
    ({ from, text, pair }) => {
      if (from === 'client' && OPENING.test(text) && ++openings === 1) resetting = pair;
      if (from === 'client' || pair !== resetting) return 'pass';
      if (text.includes('ACCEPT')) return 'reset';
      return isHeld ? 'drop' : 'pass';
    },
  );
  return {
    ...proxy,
    url: `ws://127.0.0.1:${proxy.port}/session`,
    get openings() {
      return openings;
    },
    async rearm() {
      proxy.refuse();
      proxy.allow();
      openings = 0;
      resetting = undefined;
      // They hear of it no later than of this answer.
      await new Promise<void>((resolve, reject) =>
        get({ port: proxy.port, path: '/healthz', agent: false }, (answer) =>
          answer.resume().on('end', resolve),
        ).on('error', reject),
      );
    },
  };
}
