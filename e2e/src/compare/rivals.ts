/** What is compared: an app for each, written as the documentation that is named recommends. */

export interface Rival {
  readonly name: string;
  /** The folder of its app in `apps/`. */
  readonly folder: string;
  /** Its files whose lines are counted; paths are from its folder. */
  readonly files: readonly string[];
  /** Packages whose versions are stated. Ours have none yet. */
  readonly packages: readonly string[];
  /** How it is set up, for the page. */
  readonly configuration: string;
  /** The page of its documentation that recommends it: a title and an address. */
  readonly page: readonly [title: string, address: string];
  readonly needs?: 'redis' | 'centrifugo';
}

/** The file of its client, from its folder. */
export function clientOf({ files }: Rival): string {
  const file = files.find((name) => name.endsWith('client.mjs'));
  if (file === undefined) throw new Error('an app needs a client');
  return file;
}

/** In exact versions, since the lockfile of this repository does not have all of them. */
export const PACKAGES_OF_RIVALS = [
  'ws@8.23.0',
  'socket.io@4.8.4',
  'socket.io-client@4.8.4',
  'ai@7.0.173',
  'zod@4.6.7',
  'resumable-stream@2.2.13',
  'ioredis@6.0.0',
  'eventsource-parser@3.1.1',
  'centrifuge@5.8.0',
];

const BOTH = ['server.mjs', 'client.mjs'];

export const RIVALS: readonly Rival[] = [
  {
    name: 'Parlance',
    folder: 'parlance',
    files: BOTH,
    packages: [],
    configuration: 'in memory; `keep`, `store`',
    page: ['answers that survive a reload', 'guide/kept-replies.md'],
  },
  {
    name: 'Parlance, durable',
    folder: 'parlance-durable',
    files: ['server.mjs', '../parlance/client.mjs'],
    packages: [],
    configuration: "SQLite; `durable()`, `ifProcessDies('again')`",
    page: ['sessions that survive their process', 'DURABLE.md'],
  },
  {
    name: '`ws`',
    folder: 'ws',
    files: BOTH,
    packages: ['ws'],
    configuration: 'with the pings of its README',
    page: [
      'how to detect broken connections',
      'https://github.com/websockets/ws#how-to-detect-and-close-broken-connections',
    ],
  },
  {
    name: '`ws`, with a log of ours',
    folder: 'ws-resuming',
    files: BOTH,
    packages: ['ws'],
    configuration: 'reconnects, and follows an answer from a number',
    page: ['it has none: you write this', 'https://github.com/websockets/ws#usage-examples'],
  },
  {
    name: 'Socket.IO',
    folder: 'socket-io',
    files: BOTH,
    packages: ['socket.io'],
    configuration: '`connectionStateRecovery`',
    page: ['connection state recovery', 'https://socket.io/docs/v4/connection-state-recovery'],
  },
  {
    name: 'SSE and Redis',
    folder: 'sse-redis',
    files: BOTH,
    packages: ['resumable-stream'],
    configuration: 'endpoints to ask, resume and stop',
    page: ['resume streams', 'https://ai-sdk.dev/docs/ai-sdk-ui/chatbot-resume-streams'],
    needs: 'redis',
  },
  {
    name: 'AI SDK over WebSocket',
    folder: 'ai-sdk',
    files: BOTH,
    packages: ['ai'],
    configuration: 'a server of your own, which keeps the chunks',
    page: [
      '`WebSocketChatTransport`',
      'https://ai-sdk.dev/docs/reference/ai-sdk-ui/websocket-chat-transport',
    ],
  },
  {
    name: 'Centrifugo',
    folder: 'centrifugo',
    files: [...BOTH, 'config.json'],
    packages: [],
    configuration: 'Redis; history, `force_recovery`',
    page: [
      'token streams',
      'https://centrifugal.dev/blog/2026/03/01/scaling-ai-token-streams-with-centrifugo',
    ],
    needs: 'centrifugo',
  },
];
