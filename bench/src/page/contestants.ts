/** The pages that are compared, by the name of their file in `pages/`. */

/** A server that a page connects to; without one, the page is only weighed. */
export type Far = 'session' | 'socket.io' | 'ws';

export interface Contestant {
  readonly page: string;
  readonly title: string;
  readonly far?: Far;
}

export const OURS: readonly (Contestant & { readonly far: Far })[] = [
  { page: 'send', title: 'connect, send', far: 'session' },
  { page: 'request', title: 'connect, request, stream', far: 'session' },
  { page: 'chat', title: 'session.fetch, context', far: 'session' },
];

export const SOCKET_IO = { page: 'socket-io', title: 'socket.io', far: 'socket.io' } as const;
export const WEB_SOCKET = { page: 'web-socket', title: 'WebSocket', far: 'ws' } as const;

export const OTHERS: readonly Contestant[] = [
  SOCKET_IO,
  { page: 'graphql-ws', title: 'graphql-ws' },
  { page: 'centrifuge', title: 'centrifuge' },
  { page: 'ably', title: 'ably, modular' },
  { page: 'signalr', title: '@microsoft/signalr' },
  { page: 'reconnecting-websocket', title: 'reconnecting-websocket' },
  { page: 'partysocket', title: 'partysocket' },
];
