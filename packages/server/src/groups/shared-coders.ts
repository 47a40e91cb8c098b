import { type BodyCoder, createBodyCoder } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';

/** Sets of codecs that are remembered. Clients choose the sets, so their number is bounded. */
const MAX_CODERS = 32;

/** Coders without context, each for all sessions that agreed on the same codecs and vocabulary. */
export class SharedCoders {
  readonly #coders = new Map<string, BodyCoder>();

  for({ negotiated, loading, options }: ServerEndpoint): BodyCoder {
    const { algorithms } = negotiated;
    const usable = { ...loading.usable, hasContext: false };
    const key = [algorithms, usable.algorithms, usable.encoding?.name].join(' ');
    const known = this.#coders.get(key);
    // The coder that was used least recently is the first one.
    this.#coders.delete(key);
    const coder =
      known ??
      createBodyCoder({
        algorithms,
        encoding: usable.encoding,
        usable,
        limits: options.limits,
        maxMessageSize: options.limits.maxMessageSize,
        security: options.security,
        yield: options.yield ?? options.clock.yield,
      });
    this.#coders.set(key, coder);
    const [oldest] = this.#coders.keys();
    if (this.#coders.size > MAX_CODERS && oldest !== undefined) this.#coders.delete(oldest);
    return coder;
  }
}
