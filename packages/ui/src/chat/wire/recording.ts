import type { ClientSession, WebSocketConstructor } from '@parlance/client';
import { watchSockets } from '@parlance/client/inspect';
import { openChannel } from '../../shared/channel.js';
import { randomName, tabName } from '../../shared/profile.js';
import { whenIdle } from '../../shared/slices.js';
import { type Happening, MAX_HAPPENINGS } from './happening.js';
import type { Sharing } from './sharing.js';

/**
 * The newest frames of this page, as they were on the wire. They stay in this page, and are not explained, until an
 * inspector of the same origin asks for them.
 */

export interface Recording {
  /** The class for the connections of this page. */
  readonly WebSocket: WebSocketConstructor;
  /** Says from now on how this session codes its messages. */
  follow(session: ClientSession): void;
  /** Opens an inspector at the stream of an answer. */
  show(replyName: string): void;
}

const MAX_BYTES = 16 * 1024 * 1024;

/**
 * @param title of this page, for people who choose among several.
 * @param Socket the class that is recorded.
 * @param onFrame called for each frame.
 */
export function createRecording(
  title: () => string,
  Socket: WebSocketConstructor,
  onFrame: (direction: 'sent' | 'received', length: number) => void,
): Recording {
  const page = `${tabName().slice(0, 8)}-${randomName().slice(0, 8)}`;
  let session: ClientSession | undefined;
  const happenings: Happening[] = [];
  let bytes = 0;
  let sharing: Promise<Sharing> | undefined;
  let shared: Sharing | undefined;

  const take = (count: number): Happening[] => {
    const taken = happenings.splice(0, count);
    for (const happening of taken) bytes -= sizeOf(happening);
    return taken;
  };
  const load = (): Promise<Sharing> => {
    sharing ??= import('./sharing.js').then(
      ({ createSharing }) => {
        shared = createSharing({ page, channel, take });
        return shared;
      },
      (error: unknown) => {
        // The next question tries again.
        sharing = undefined;
        throw error;
      },
    );
    return sharing;
  };
  /** There are more than so many times what is kept. */
  const isOver = (times: number) => happenings.length > times * MAX_HAPPENINGS || bytes > times * MAX_BYTES;
  let isDropping = false;
  /** Later frames cannot be read without those before, so what is dropped is explained first. */
  const drop = (remaining: () => number): void => {
    while (isOver(1)) {
      shared?.skip(1);
      if (remaining() <= 0) return whenIdle(drop);
    }
    isDropping = false;
  };
  const keep = (happening: Happening): void => {
    happenings.push(happening);
    bytes += sizeOf(happening);
    shared?.wake();
    if (!isOver(1)) return;
    if (!isDropping) {
      isDropping = true;
      void load().then(
        () => whenIdle(drop),
        () => {
          isDropping = false;
        },
      );
    }
    while (isOver(2)) shared === undefined ? take(1) : shared.skip(1);
  };

  const channel = openChannel((message) => {
    if (message.type === 'who') channel.send({ type: 'page', page, title: title() });
    if (message.type === 'watch' && message.page === page)
      void load().then(
        (loaded) => loaded.watch(message.inspector),
        (error: unknown) => console.error('the explainer of frames could not be loaded:', error),
      );
    if (message.type === 'unwatch' && message.page === page) shared?.unwatch(message.inspector);
  });
  window.addEventListener('pagehide', () => channel.send({ type: 'gone', page }));
  window.addEventListener('pageshow', () => channel.send({ type: 'page', page, title: title() }));

  const WebSocket = watchSockets(Socket, {
    onOpening: (connection, url) => keep({ at: now(), connection, type: 'opening', url }),
    onOpen: (connection) => keep({ at: now(), connection, type: 'open' }),
    onFrame(connection, direction, frame) {
      const selection = direction === 'sent' ? session?.stats().lastSelection : undefined;
      keep({ at: now(), connection, type: 'frame', direction, frame, selection });
      onFrame(direction, frame.length);
    },
    onClosed: (connection, code, reason) => keep({ at: now(), connection, type: 'closed', code, reason }),
  });

  return {
    WebSocket,
    follow(next) {
      session = next;
    },
    show(replyName) {
      const fragment = new URLSearchParams({ page, reply: replyName });
      window.open(new URL(`./inspect#${fragment}`, location.href), 'parlance-inspector');
    },
  };
}

/** Unix milliseconds that never run backwards. */
function now(): number {
  return performance.timeOrigin + performance.now();
}

function sizeOf(happening: Happening): number {
  return happening.type === 'frame' ? happening.frame.length + (happening.selection?.body.length ?? 0) : 0;
}
