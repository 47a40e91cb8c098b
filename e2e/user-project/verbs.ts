import { connect, type Session, type SessionModule } from '@parlance/client';
import { createServer, type Feature, type ServerSession } from '@parlance/server';

/** Methods and events that another package adds to sessions. */

declare module '@parlance/client' {
  interface Session {
    hint(name: 'typing', data: { readonly who: string }): Promise<void>;
  }
  interface ClientSession {
    shout(text: string): Promise<string>;
  }
  interface SessionEvents {
    typing: { readonly who: string };
  }
}
declare module '@parlance/server' {
  interface ServerSession<Data> {
    visits(): number;
  }
}

export const module: SessionModule = {
  name: 'hinting',
  install: (port) => ({
    verbs: {
      hint: async ({ session }, name, data) =>
        void (await session.request({ json: data }, { metadata: { hint: name } })),
      shout: async ({ session }, text) => (await session.request(text.toUpperCase())).text,
    },
    events: ['typing'],
    wrap: (next) => (message, context) => {
      if (context.metadata['hint'] !== 'typing') return next(message, context);
      port.notify('typing', message.json<{ who: string }>());
      return '';
    },
  }),
};

export const feature: Feature = {
  name: 'hinting',
  install(host) {
    const visits = host.slot(() => ({ count: 0 }));
    return {
      verbs: {
        hint: async ({ session }, name, data) =>
          void (await session.request({ json: data }, { metadata: { hint: name } })),
        visits: (session) => ++visits.of(session).count,
      },
      events: ['typing'],
      wrap: (next) => (message, context) => {
        if (context.metadata['hint'] !== 'typing') return next(message, context);
        host.find(context.session.id)?.notify('typing', message.json<{ who: string }>());
        return '';
      },
    };
  },
};

export async function main(): Promise<void> {
  const server = createServer({ features: [feature] });
  const session = await connect((await server.listen()).url, { modules: [module] });
  const far: ServerSession | undefined = server.sessions.get(session.id);
  const ends: readonly (Session | undefined)[] = [session, far];
  for (const end of ends) {
    end?.on('typing', ({ who }) => console.log(who.length));
    await end?.hint('typing', { who: 'Ada' });
  }
  const shouted: string = await session.shout('hello');
  const visits: number | undefined = far?.visits();
  console.log(shouted, visits);
  // @ts-expect-error: only a client has it.
  far?.shout('hello');
  // @ts-expect-error: no file declares it.
  session.on('sleeping', () => {});
  // @ts-expect-error: the data is of another kind.
  await session.hint('typing', 1);
}
