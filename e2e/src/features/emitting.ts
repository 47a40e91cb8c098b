import type { RequestHandler, Session, SessionModule, SessionPort } from '@parlance/client';
import type { Feature } from '@parlance/server';

/** `session.emit(name, data)` at both ends, as another package would write it: it imports public names only. */

export interface Emitted {
  typing: { readonly who: string };
  moved: readonly [x: number, y: number];
}

declare module '@parlance/client' {
  interface Session {
    /** Calls the listeners of the other end. Resolves when they have been called. */
    emit<Name extends keyof Emitted>(name: Name, data: Emitted[Name]): Promise<void>;
  }
  interface SessionEvents extends Emitted {}
}

const events = ['typing', 'moved'] as const;
const isEvent = (name: unknown): name is keyof Emitted => events.includes(name as keyof Emitted);

const verbs = {
  async emit({ session }: SessionPort, name: keyof Emitted, data: Emitted[keyof Emitted]): Promise<void> {
    if (!isEvent(name)) throw new TypeError(`no event ${String(name)}`);
    await session.request({ json: data }, { metadata: { emit: name } });
  },
};

const receiving =
  (portOf: (session: Session) => SessionPort | undefined) =>
  (next: RequestHandler): RequestHandler =>
  (message, context) => {
    const { emit: name } = context.metadata;
    if (!isEvent(name)) return next(message, context);
    portOf(context.session)?.notify(name, message.json<Emitted[typeof name]>());
    return '';
  };

export const emittingFeature = (): Feature => ({
  name: 'emitting',
  install: (host) => ({ verbs, events, wrap: receiving(({ id }) => host.find(id)) }),
});

export const emittingModule = (): SessionModule => ({
  name: 'emitting',
  install: (port) => ({ verbs, events, wrap: receiving(() => port) }),
});
