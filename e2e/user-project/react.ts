import type { Message, Session } from '@parlance/client';
import {
  type FollowView,
  type SessionStatus,
  type StreamView,
  useAgents,
  useReply,
  useRoom,
  useSession,
  useStream,
} from '@parlance/client/react';

/** Hooks as an application writes them. Their types need none of React. */

const WORDS: Record<SessionStatus, string> = {
  idle: 'not signed in',
  connecting: 'connecting',
  online: 'online',
  reconnecting: 'offline',
  refused: 'refused',
  closed: 'closed',
};

export function useChat(url: string, chat: string | undefined): readonly string[] {
  const { session, status, secondsLeft, code, error, retry } = useSession(url, {
    token: () => 'secret',
    onReset: ({ notSent }) => console.log(notSent.length),
  });
  const room = useRoom(session, chat, { join: (of, name) => of.request({ join: name }) });
  // @ts-expect-error: there is no such status
  if (room.status === 'left') console.log(room.code);
  const answer = useStream(session);
  const kept = useReply(session, chat, { after: 2 });
  const counted = useReply(session, chat, { initial: 0, read: (count: number, _: Message) => count + 1 });
  const { list } = useAgents(session);
  const count: number = counted.value;
  if (status === 'refused') retry();
  answer.start({ question: 'why?' }, { timeoutMs: 1_000 });
  void kept.stop();
  // @ts-expect-error: it is a number
  const wrong: string = counted.value;
  // @ts-expect-error: there is no such status
  if (answer.status === 'finished') answer.stop();
  return [
    WORDS[status],
    `${secondsLeft ?? 0} ${code} ${error?.message ?? answer.error?.message} ${count} ${wrong}`,
    answer.value,
    kept.value,
    ...list.map(({ id }) => id),
  ];
}

export function useCount(session: Session | undefined): StreamView<number, number> {
  const view = useStream(session, { initial: 0, read: (sum: number, part: number) => sum + part });
  const followed: FollowView<string> = useReply(session, undefined);
  return followed.status === 'idle' ? view : { ...view, value: 0 };
}
