import type { RequestHandler, Session, SessionModule, SessionPort } from '@parlance/client';
import type { Feature } from '@parlance/server';

/** `session.hint(name, data)` at both ends, as another package would write it: it imports public names only. */

export interface Hinted {
  typing: { readonly who: string };
  moved: readonly [x: number, y: number];
}

declare module '@parlance/client' {
  interface Session {
    /** Calls the listeners of the other end. Resolves when they have been called. */
    hint<Name extends keyof Hinted>(name: Name, data: Hinted[Name]): Promise<void>;
  }
  interface SessionEvents extends Hinted {}
}

const events = ['typing', 'moved'] as const;
const isEvent = (name: unknown): name is keyof Hinted => events.includes(name as keyof Hinted);

const verbs = {
  async hint({ session }: SessionPort, name: keyof Hinted, data: Hinted[keyof Hinted]): Promise<void> {
    if (!isEvent(name)) throw new TypeError(`no event ${String(name)}`);
    await session.request({ json: data }, { metadata: { hint: name } });
  },
};

const receiving =
  (portOf: (session: Session) => SessionPort | undefined) =>
  (next: RequestHandler): RequestHandler =>
  (message, context) => {
    const { hint: name } = context.metadata;
    if (!isEvent(name)) return next(message, context);
    portOf(context.session)?.notify(name, message.json<Hinted[typeof name]>());
    return '';
  };

export const hintingFeature = (): Feature => ({
  name: 'hinting',
  install: (host) => ({ verbs, events, wrap: receiving(({ id }) => host.find(id)) }),
});

export const hintingModule = (): SessionModule => ({
  name: 'hinting',
  install: (port) => ({ verbs, events, wrap: receiving(() => port) }),
});
