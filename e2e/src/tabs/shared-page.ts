import { type ClientOptions, type ClientSession, connect, type SessionModule } from '@parlance/client';

/** A page whose functions the tests call, each with a session that it may share with other tabs. */

export interface SharedPage {
  /** Returns the ID of the session, or the error. */
  open(server: string, options?: ClientOptions): Promise<string>;
  /** Gives up after some milliseconds. */
  openWithin(ms: number, server: string, options: ClientOptions): Promise<string>;
  request(text: string): Promise<string>;
  /** Reads a reply up to the first part and keeps the iteration open; {@link rest} reads the others. */
  begin(text: string): Promise<string>;
  /** The length of the other parts, or the error. */
  rest(): Promise<string>;
  leave(): Promise<void>;
  send(text: string): Promise<void>;
  read(): Promise<string>;
  facts(): { id: string; state: string; sent: number; states: readonly string[]; resets: number };
  close(): Promise<number>;
  logged(): readonly string[];
  /** As {@link SharedPage.open}, with a method and an event of the page's own. */
  openWatching(server: string, options: ClientOptions): Promise<string>;
  /** The parts of a reply, as events. */
  watch(text: string): Promise<readonly string[]>;
}

declare module '@parlance/client' {
  interface ClientSession {
    watch(text: string): Promise<void>;
  }
  interface SessionEvents {
    part: string;
  }
}

const watching: SessionModule = {
  name: 'watching',
  install: () => ({
    events: ['part'],
    verbs: {
      async watch(port, text) {
        for await (const part of port.session.stream(text)) port.notify('part', part.text);
      },
    },
  }),
};

let session: ClientSession;
let parts: AsyncIterator<{ text: string }> | undefined;
const states: string[] = [];
let resets = 0;
const lines: string[] = [];
const log = (fields: Readonly<Record<string, unknown>>) => void lines.push(String(fields['event']));

const orError = (work: Promise<string>): Promise<string> =>
  work.catch((error: { code?: string; side?: string; data?: unknown; name: string }) =>
    [error.name, error.code, error.side, JSON.stringify(error.data)].filter(Boolean).join(' '),
  );

const page: SharedPage = {
  open: (server, options) =>
    orError(
      connect(server, { logger: { debug: log, info: log, warn: log, error: log }, ...options }).then(
        (opened) => {
          session = opened;
          session.on('state', (state) => states.push(state));
          session.on('reset', () => {
            resets++;
          });
          return session.id;
        },
      ),
    ),
  openWithin: (ms, server, options) =>
    orError(connect(server, { ...options, signal: AbortSignal.timeout(ms) }).then(({ id }) => id)),
  request: (text) => orError(session.request(text).then((reply) => reply.text)),
  async begin(text) {
    parts = session.stream(text)[Symbol.asyncIterator]();
    return (await parts.next()).value?.text.slice(0, 10) ?? 'nothing';
  },
  async rest() {
    const read = async (): Promise<string> => {
      let length = 0;
      for (;;) {
        const result = await parts?.next();
        if (result === undefined || result.done === true) return String(length);
        length += result.value.text.length;
      }
    };
    return await orError(read());
  },
  async leave() {
    await parts?.return?.();
  },
  send: (text) => session.send(text),
  async read() {
    for await (const message of session) return message.text;
    return 'the end';
  },
  facts: () => {
    const { messages } = session.stats().sent;
    return { id: session.id, state: session.state, sent: messages, states, resets };
  },
  close: async () => (await session.close()).unacknowledged,
  logged: () => lines,
  openWatching: (server, options) => page.open(server, { ...options, modules: [watching] }),
  async watch(text) {
    const parts: string[] = [];
    const stop = session.on('part', (part) => parts.push(part));
    await session.watch(text);
    stop();
    return parts;
  },
};
Object.assign(globalThis, { page });
