import {
  type Feature,
  type FeatureHooks,
  type FeatureHost,
  type FeatureSession,
  type OpenSocket,
  Service,
  type Slot,
  type Transport,
  type Visitor,
} from '@parlance/server';

/** A feature that somebody else has written, with names for all that it uses. */

export const VISITS = new Service<{ readonly count: number }>('visits');

class Visits implements FeatureHooks {
  readonly #host: FeatureHost;
  readonly #seen: Slot<{ count: number }, FeatureSession>;
  readonly #sockets = new Set<Transport>();
  count = 0;

  constructor(host: FeatureHost) {
    this.#host = host;
    this.#seen = host.slot(() => ({ count: 0 }));
    host.provide(VISITS, this);
  }

  readonly labels = { visits: (session: FeatureSession) => String(this.#seen.peek(session)?.count ?? 0) };

  ready(session: FeatureSession): void {
    this.#seen.of(session).count = ++this.count;
    this.#host.changed(session);
  }

  save(session: FeatureSession): unknown {
    return this.#seen.peek(session)?.count;
  }

  load(saved: unknown): (session: FeatureSession) => void {
    const count = Number(saved);
    return (session) => void this.#seen.set(session, { count });
  }

  upgrade(path: string) {
    return path === '/visits' ? { open: (socket: OpenSocket) => void this.#sockets.add(socket) } : undefined;
  }

  http(path: string) {
    if (path !== '/visits') return undefined;
    return async (request: Parameters<FeatureHost['identify']>[0]): Promise<void> => {
      const visitor: Visitor = await this.#host.identify(request);
      await (await this.#host.session(visitor)).close();
    };
  }
}

export const visits = (): Feature => ({
  name: 'visits',
  provides: [VISITS],
  install: (host) => new Visits(host),
});
