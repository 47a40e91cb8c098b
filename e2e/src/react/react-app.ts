import type { ClientSession } from '@parlance/client';
import { contractClient } from '@parlance/client/contract';
import { useAgents, useMessages, useReply, useRoom, useSession, useStream } from '@parlance/client/react';
import { createElement as h, type ReactNode, StrictMode, Suspense, useState } from 'react';
import { COUNTING } from './react-contract.js';

/** Shows each hook as text, and lets a test press buttons. */

/** A text that the test reads. */
const show = (id: string, value: unknown) =>
  h('output', { id, key: id }, typeof value === 'string' ? value : JSON.stringify(value));
const button = (id: string, onClick: () => unknown) =>
  h('button', { id, key: id, type: 'button', onClick: () => void onClick() }, id);

function Stream({ session }: { session: ClientSession | undefined }): ReactNode {
  const { value, status, code, start, stop, keptId } = useStream(session);
  return [
    show('stream', [status, value, code ?? null, keptId === undefined]),
    button('ask', () => start('a question')),
    button('ask-kept', () => start('keep')),
    button('ask-long', () => start('long')),
    button('stop', stop),
  ];
}

function Counting({ session }: { session: ClientSession | undefined }): ReactNode {
  const sum = { initial: 0, read: (before: number, part: number) => before + part };
  const { value, status, start } = useStream(session, sum);
  return [
    show('count', [status, value]),
    button('start-count', () => session && start(contractClient(COUNTING, session).stream.count(4))),
  ];
}

function Reply({ session, name }: { session: ClientSession | undefined; name: string }): ReactNode {
  const { value, status, code, position, stop } = useReply(session, name);
  return [
    show('reply', [status, value, code ?? null]),
    show('position', position),
    button('stop-reply', stop),
  ];
}

function Agents({ session }: { session: ClientSession | undefined }): ReactNode {
  const { status, list, code } = useAgents(session);
  return show('agents', [status, list.map(({ id }) => id).sort(), code ?? null]);
}

/** A room, which is joined again in each session. */
function Room({ session, name }: { session: ClientSession | undefined; name: string }): ReactNode {
  const { status, code } = useRoom(session, name, {
    join: (session, name) => session.request(name === 'full' ? name : `join ${session.id}`),
    leave: (session) => session.request(`leave ${session.id}`),
  });
  return [
    show('room', [status, code ?? null]),
    h(Said, { session, name: 'said', key: 'said' }),
    h(Said, { session, name: 'count', key: 'count' }),
  ];
}

function Said({ session, name }: { session: ClientSession | undefined; name: string }): ReactNode {
  const [said, setSaid] = useState<readonly string[]>([]);
  useMessages(session, ({ text }) => setSaid([...said, text]));
  return show(name, name === 'said' ? said : said.length);
}

interface AppOptions {
  readonly url: string;
  readonly token: string;
  readonly room?: string | undefined;
  /** A session or a function in place of the URL. */
  readonly source?: ClientSession | (() => Promise<ClientSession>) | undefined;
}

function App({ url, token, room = 'lobby', source }: AppOptions): ReactNode {
  const [target, setTarget] = useState(url);
  const [shown, setShown] = useState('stream');
  const [resets, setResets] = useState<readonly string[]>([]);
  const { session, id, status, secondsLeft, code, retry } = useSession(target && (source ?? target), {
    token,
    onReset: ({ reason }) => setResets([...resets, reason]),
    reconnect: { minDelayMs: 10, maxDelayMs: 50 },
  });
  const parts: Record<string, () => ReactNode> = {
    stream: () => h(Stream, { session, key: 'stream' }),
    count: () => h(Counting, { session, key: 'count' }),
    reply: () => h(Reply, { session, name: 'kept', key: 'reply' }),
    agents: () => h(Agents, { session, key: 'agents' }),
    room: () => h(Room, { session, name: room, key: 'room' }),
    nothing: () => null,
  };
  return [
    show('status', status),
    show('code', code ?? ''),
    show('left', secondsLeft ?? -1),
    show('id', id ?? ''),
    show('resets', resets.length),
    ...Object.keys(parts).map((name) => button(`show-${name}`, () => setShown(name))),
    button('leave', () => setTarget('')),
    button('return', () => setTarget(url)),
    button('retry', retry),
    button('close', () => session?.close()),
    parts[shown]?.(),
  ];
}

export const page = (options: AppOptions): ReactNode =>
  h(StrictMode, null, h(Suspense, { fallback: 'loading' }, h(App, options)));
